package facts

import (
	"encoding"
	"fmt"
	"math"
	"net/url"
	"reflect"
	"strings"
	"time"

	"github.com/siderolabs/talos/pkg/machinery/cel"
	"github.com/siderolabs/talos/pkg/machinery/config/types/meta"
	"github.com/siderolabs/talos/pkg/machinery/config/types/network"
	"github.com/siderolabs/talos/pkg/machinery/config/types/v1alpha1"
	"go.yaml.in/yaml/v4"
)

// longest is how many bytes of a value are shown; longer ones are fingerprints.
const longest = 256

// show is a value as a policy may see it: booleans, numbers, enums and addresses as
// they are, texts as the field's visibility says, everything else a fingerprint.
func show(d Digester, kind, field string, v reflect.Value) any {
	if number, ok := plainNumber(v); ok {
		return number
	}
	if (v.Kind() == reflect.String || v.Kind() == reflect.Slice) && v.Len() == 0 {
		return ""
	}
	masked := func() any { return d.Fingerprint(encode(v)) }
	text, typed, ok := textOf(v)
	if !ok || len(text) > longest || strings.IndexFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) >= 0 {
		return masked()
	}
	if typed {
		return text
	}
	switch visibilityOf(kind, field) {
	case shown:
		if looksSecret(field, text) {
			return masked()
		}
		return text
	case numeric:
		if strings.Trim(text, "-0123456789 \t") != "" {
			return masked()
		}
		return text
	case origin:
		return showOrigin(d, text)
	default:
		return masked()
	}
}

// plainNumber takes booleans and numbers whose type says no more than that.
func plainNumber(v reflect.Value) (any, bool) {
	if writesItself(v.Type()) || v.Type() == reflect.TypeFor[time.Duration]() {
		return nil, false
	}
	switch v.Kind() {
	case reflect.Bool:
		return v.Bool(), true
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return v.Int(), true
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if v.Uint() > math.MaxInt64 {
			return fmt.Sprint(v.Uint()), true
		}
		return int64(v.Uint()), true
	case reflect.Float32, reflect.Float64:
		return v.Float(), true
	default:
		return nil, false
	}
}

// textOf writes a value that has a text. Typed is true when the type alone makes the
// text harmless: an enum, an address, a size, a duration.
func textOf(v reflect.Value) (text string, typed, ok bool) {
	if v.Kind() == reflect.String {
		return v.String(), false, true
	}
	addressable := reflect.New(v.Type())
	addressable.Elem().Set(v)
	switch value := addressable.Interface().(type) {
	case *time.Duration:
		return value.String(), true, true
	case *meta.URL:
		if value.URL == nil {
			return "", false, true
		}
		return value.URL.String(), false, true
	case *v1alpha1.Endpoint:
		if value.URL == nil {
			return "", false, true
		}
		return value.URL.String(), false, true
	case *v1alpha1.FileMode:
		return fmt.Sprintf("%#o", uint32(*value)), true, true
	case *v1alpha1.DiskSize:
		return fmt.Sprint(uint64(*value)), true, true
	case *network.PortRange:
		return value.String(), true, true
	case *v1alpha1.InstallDiskSizeMatcher:
		written, err := value.MarshalYAML()
		text, isText := written.(string)
		return text, false, err == nil && isText
	case *cel.Expression:
		written, err := value.MarshalText()
		return string(written), false, err == nil
	case encoding.TextMarshaler:
		written, err := value.MarshalText()
		return string(written), true, err == nil
	default:
		return "", false, false
	}
}

// showOrigin shows where a URL or host:port leads and hides what else is in it: user
// names, passwords, paths and queries carry tokens.
func showOrigin(d Digester, text string) any {
	if text == "" {
		return ""
	}
	hidden := d.Fingerprint([]byte(text))
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme == "" {
		if strings.Trim(text, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:[]") == "" && !looksSecret("", text) {
			return text
		}
		return hidden
	}
	if looksSecret("", u.Host) {
		return hidden
	}
	shown := u.Scheme + "://" + u.Host
	if shown == text || shown+"/" == text {
		return text
	}
	return shown + "/" + hidden
}

// encode writes any value for a fingerprint. Texts and bytes are taken as they are, so
// that one secret has one fingerprint wherever it stands.
func encode(v reflect.Value) []byte {
	switch {
	case v.Kind() == reflect.String:
		return []byte(v.String())
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8:
		return v.Bytes()
	}
	if text, _, ok := textOf(v); ok {
		return []byte(text)
	}
	addressable := reflect.New(v.Type())
	addressable.Elem().Set(v)
	out, err := yaml.Marshal(addressable.Interface())
	if err != nil {
		return fmt.Appendf(nil, "%#v", v.Interface())
	}
	return out
}

// safeKey is a map key or document name as it may be shown: a name or a fingerprint.
func safeKey(d Digester, key string) string {
	if key == "" || len(key) > maxName+64 || looksSecret("", key) ||
		strings.IndexFunc(key, func(r rune) bool {
			return r <= ' ' || r > '~' || strings.ContainsRune("\"'`\\<>{}|^;&$", r)
		}) >= 0 {
		if key == "" {
			return ""
		}
		return d.Fingerprint([]byte(key))
	}
	return key
}
