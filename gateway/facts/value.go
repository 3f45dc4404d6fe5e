package facts

import (
	"encoding"
	"fmt"
	"math"
	"net/url"
	"reflect"
	"slices"
	"strconv"
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
// they are, texts as the field's visibility says unless the same text is masked
// elsewhere, everything else a fingerprint.
func (w viewer) show(kind, field string, v reflect.Value) any {
	if number, ok := plainNumber(v); ok {
		return number
	}
	if (v.Kind() == reflect.String || v.Kind() == reflect.Slice) && v.Len() == 0 {
		return ""
	}
	masked := func() any { return w.fingerprint(encode(v)) }
	text, typed, ok := textOf(v)
	if !ok || len(text) > longest || !printable(text) {
		return masked()
	}
	if typed {
		return w.typed(text)
	}
	switch visibilityOf(kind, field) {
	case shown:
		if looksSecret(field, text) || w.known.hides(text) {
			return masked()
		}
		return text
	case numeric:
		if !setting(text) {
			return masked()
		}
		return text
	case origin:
		return w.origin(text)
	default:
		return masked()
	}
}

// maxZone is the longest name of a network interface in bytes.
const maxZone = 15

// typed is a text whose type makes it harmless, but for the zone of an IPv6 address, in
// which anything may stand.
func (w viewer) typed(text string) any {
	at := strings.IndexByte(text, '%')
	if at < 0 {
		return text
	}
	zone := text[at+1:]
	if len(zone) > maxZone || w.known.hides(zone) {
		return text[:at+1] + w.fingerprint([]byte(zone))
	}
	return text
}

// setting is true for what the kernel's and the kubelet's settings are shown by: up to
// four integers, or one word of a fixed list. Anything else may be a key.
func setting(text string) bool {
	if slices.Contains(settingWords(), text) {
		return true
	}
	numbers := strings.Fields(text)
	if len(numbers) == 0 || len(numbers) > 4 {
		return false
	}
	for _, number := range numbers {
		if _, err := strconv.ParseInt(number, 10, 64); err != nil || number[0] == '+' {
			return false
		}
	}
	return true
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
	case *v1alpha1.ArgValue:
		written, err := value.MarshalYAML()
		node, isNode := written.(*yaml.Node)
		if err != nil || !isNode || node.Kind != yaml.ScalarNode {
			return "", false, false
		}
		return node.Value, false, true
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

// origin shows where a URL or host:port leads and hides what else is in it: user
// names, passwords, paths and queries carry tokens.
func (w viewer) origin(text string) any {
	if text == "" {
		return ""
	}
	hidden := w.fingerprint([]byte(text))
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme == "" {
		if strings.Trim(text, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:[]") == "" && !looksSecret("", text) && !w.known.hides(text) {
			return text
		}
		return hidden
	}
	if looksSecret("", u.Host) || w.known.hides(u.Host) {
		return hidden
	}
	shown := u.Scheme + "://" + u.Host
	if shown == text || shown+"/" == text {
		if w.known.hides(text) {
			return hidden
		}
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
