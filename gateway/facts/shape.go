package facts

import (
	"encoding"
	"reflect"
	"strings"

	"github.com/siderolabs/crypto/x509"
	"github.com/siderolabs/talos/pkg/machinery/config/types/v1alpha1"
	"go.yaml.in/yaml/v4"
)

// shape is how a Go type of machinery's configuration is walked.
type shape int

const (
	leaf shape = iota
	record
	list
	dictionary
)

var (
	yamlMarshaler = reflect.TypeFor[yaml.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
)

// shapeOf decides for a type that is not a pointer. A type that writes itself is a
// leaf, and so is free-form content; certificates are taken apart, because their
// public and their private half are judged differently.
func shapeOf(t reflect.Type) shape {
	switch t {
	case reflect.TypeFor[x509.PEMEncodedCertificateAndKey](), reflect.TypeFor[x509.PEMEncodedCertificate](), reflect.TypeFor[x509.PEMEncodedKey]():
		return record
	case reflect.TypeFor[v1alpha1.Unstructured]():
		return leaf
	}
	if writesItself(t) {
		return leaf
	}
	switch t.Kind() {
	case reflect.Struct:
		return record
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return leaf
		}
		return list
	case reflect.Map:
		return dictionary
	default:
		return leaf
	}
}

func writesItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(yamlMarshaler) || p.Implements(textMarshaler)
}

// member is one field of a record.
type member struct {
	// name is the YAML name, empty for one whose fields appear in the record itself.
	name  string
	value reflect.Value
}

// membersOf lists a record's exported fields. Unexported ones are compared as part of
// the whole.
func membersOf(v reflect.Value) []member {
	t := v.Type()
	out := make([]member, 0, t.NumField())
	for i := range t.NumField() {
		field := t.Field(i)
		if !field.IsExported() {
			continue
		}
		tag := field.Tag.Get("yaml")
		name, options, _ := strings.Cut(tag, ",")
		switch {
		case name == "-":
			continue
		case name == "" && (strings.Contains(options, "inline") || field.Anonymous):
		case name == "":
			name = strings.ToLower(field.Name)
		}
		out = append(out, member{name: name, value: v.Field(i)})
	}
	return out
}

// strip follows pointers and interfaces. It is false for nil, and given is true when
// something other than a bare zero value stood there.
func strip(v reflect.Value) (out reflect.Value, given, ok bool) {
	for v.IsValid() && (v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface) {
		if v.IsNil() {
			return reflect.Value{}, false, false
		}
		v, given = v.Elem(), true
	}
	return v, given, v.IsValid()
}
