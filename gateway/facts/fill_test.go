package facts

import (
	"net/url"
	"reflect"
	"strconv"

	"github.com/siderolabs/talos/pkg/machinery/config/types/meta"
	"github.com/siderolabs/talos/pkg/machinery/config/types/v1alpha1"
)

// fill puts a text into every field of a value that can hold one, free-form content,
// certificates and map values included, and leaves numbers, choices and addresses. It
// returns how many it filled. Fields named as the document's identity stay.
func fill(v reflect.Value, text string, depth int) int {
	n := 0
	fillAs(v, func() string { n++; return text + strconv.Itoa(n) }, "", depth)
	return n
}

func fillAs(v reflect.Value, next func() string, name string, depth int) {
	if depth > 16 || !v.IsValid() {
		return
	}
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			if !v.CanSet() || (v.Type().Elem().Kind() != reflect.Struct && v.Type().Elem().Kind() != reflect.String) {
				return
			}
			v.Set(reflect.New(v.Type().Elem()))
		}
		fillAs(v.Elem(), next, name, depth+1)
		return
	}
	if v.CanAddr() {
		switch value := v.Addr().Interface().(type) {
		case *v1alpha1.Unstructured:
			value.Object = map[string]any{"data": next(), "list": []any{map[string]any{"deep": next()}}}
			return
		case *v1alpha1.ArgValue:
			*value = v1alpha1.NewArgValue(next(), nil)
			return
		case *meta.URL:
			value.URL = &url.URL{Scheme: "https", Host: "h.example.com", Path: "/", User: url.UserPassword("u", next()), RawQuery: "jointoken=" + next()}
			return
		case *v1alpha1.Endpoint:
			value.URL = &url.URL{Scheme: "https", Host: "h.example.com", Path: "/" + next()}
			return
		}
	}
	switch shapeOf(v.Type()) {
	case record:
		for _, m := range membersOf(v) {
			fillAs(m.value, next, m.name, depth+1)
		}
	case list:
		if !v.CanSet() {
			return
		}
		one := reflect.New(v.Type().Elem()).Elem()
		fillAs(one, next, name, depth+1)
		v.Set(reflect.Append(reflect.MakeSlice(v.Type(), 0, 1), one))
	case dictionary:
		if !v.CanSet() {
			return
		}
		one := reflect.New(v.Type().Elem()).Elem()
		fillAs(one, next, name, depth+1)
		made := reflect.MakeMap(v.Type())
		made.SetMapIndex(reflect.ValueOf("key").Convert(v.Type().Key()), one)
		v.Set(made)
	case leaf:
		switch {
		case !v.CanSet() || name == "apiVersion" || name == "kind" || name == "name":
		case v.Kind() == reflect.String:
			v.SetString(next())
		case v.Kind() == reflect.Interface:
			v.Set(reflect.ValueOf(next()))
		case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8 && !typedText(v.Type()):
			v.SetBytes([]byte(next()))
		}
	}
}
