package facts

import (
	"encoding/base64"
	"errors"
	"net/netip"
	"net/url"
	"reflect"
	"strings"

	"github.com/siderolabs/talos/pkg/machinery/config/config"
	"github.com/siderolabs/talos/pkg/machinery/config/types/meta"
	"github.com/siderolabs/talos/pkg/machinery/config/types/v1alpha1"
)

// masker replaces what a policy may not see by fingerprints, in place, and collects
// what it replaced. It follows the same rule as Facts do: viewer. A dry one only collects.
type masker struct {
	view viewer
	sink sink
	dry  bool
	err  error

	kind string
	// encoded are fingerprints that the encoder will write in base64.
	encoded map[string]string
}

func (m *masker) document(document config.Document) {
	m.kind = kindOf(document)
	m.walk(place{}, reflect.ValueOf(document))
}

func (m *masker) walk(at place, v reflect.Value) {
	v, _, ok := strip(v)
	if !ok || m.err != nil {
		return
	}
	switch shapeOf(v.Type()) {
	case record:
		for _, member := range membersOf(v) {
			m.walk(at.member(member.name), member.value)
		}
	case list:
		for i := range v.Len() {
			m.walk(at.element(i), v.Index(i))
		}
	case dictionary:
		m.dictionary(at, v)
	case leaf:
		m.leaf(at, v)
	}
}

// dictionary masks a map's values, and those keys that are no names.
func (m *masker) dictionary(at place, v reflect.Value) {
	for _, key := range v.MapKeys() {
		value := reflect.New(v.Type().Elem()).Elem()
		value.Set(v.MapIndex(key))
		m.walk(at.key(key.String()), value)

		name := m.view.key(key.String())
		if name != key.String() {
			m.addKey(key.String(), name)
		}
		if m.dry {
			continue
		}
		if name != key.String() {
			v.SetMapIndex(key, reflect.Value{})
		}
		v.SetMapIndex(reflect.ValueOf(name).Convert(key.Type()), value)
	}
}

// addKey takes a masked key, or only its name when what stands before it is shown.
func (m *masker) addKey(key, shown string) {
	if at := strings.LastIndexByte(key, '/'); at >= 0 && strings.HasPrefix(shown, key[:at+1]) {
		key = key[at+1:]
	}
	m.sink.add(key)
}

func (m *masker) leaf(at place, v reflect.Value) {
	if v.IsZero() || v.Kind() == reflect.Slice && v.Len() == 0 {
		return
	}
	if at.field == "name" && m.kind != "v1alpha1" && v.Kind() == reflect.String {
		// The same rule as for a document's name elsewhere.
		if name := m.view.key(v.String()); name != v.String() {
			m.addKey(v.String(), name)
			if !m.dry {
				v.SetString(name)
			}
		}
		return
	}
	value := m.view.show(m.kind, at.field, v)
	if _, number := plainNumber(v); number {
		return
	}
	text, _, ok := textOf(v)
	if ok && value == any(text) {
		return
	}
	replacement, isText := value.(string)
	if !isText {
		m.fail()
		return
	}
	if m.collect(v); !m.dry && m.err == nil {
		m.replace(v, replacement)
	}
}

// collect takes what is in a value that is not shown.
func (m *masker) collect(v reflect.Value) {
	if !v.CanAddr() {
		m.fail()
		return
	}
	switch value := v.Addr().Interface().(type) {
	case *v1alpha1.Unstructured:
		addContent(m.sink, value.Object)
		return
	case *v1alpha1.ArgValue:
		written, err := value.MarshalYAML()
		if err != nil {
			m.fail()
			return
		}
		addNode(m.sink, written)
		return
	case *meta.URL:
		addURL(m.sink, value.URL)
		return
	case *v1alpha1.Endpoint:
		addURL(m.sink, value.URL)
		return
	case *netip.Addr:
		m.sink.add(value.Zone())
		return
	}
	switch {
	case v.Kind() == reflect.String:
		if u, err := url.Parse(v.String()); err == nil && u.Host != "" {
			addURL(m.sink, u)
		}
		m.sink.add(v.String())
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8:
		m.sink.add(string(v.Bytes()))
	case v.Kind() == reflect.Interface:
		addContent(m.sink, v.Interface())
	default:
		m.sink.add(string(encode(v)))
	}
}

// replace writes a fingerprint, or an origin with one, where a value stood.
func (m *masker) replace(v reflect.Value, replacement string) {
	if !v.CanSet() {
		m.fail()
		return
	}
	switch value := v.Addr().Interface().(type) {
	case *v1alpha1.Unstructured:
		*value = v1alpha1.Unstructured{Object: map[string]any{"hidden": replacement}}
		return
	case *v1alpha1.ArgValue:
		*value = v1alpha1.NewArgValue(replacement, nil)
		return
	case *meta.URL:
		value.URL = m.url(replacement)
		return
	case *v1alpha1.Endpoint:
		value.URL = m.url(replacement)
		return
	case *netip.Addr:
		_, zone, _ := strings.Cut(replacement, "%")
		*value = value.WithZone(zone)
		return
	}
	switch {
	case v.Kind() == reflect.String:
		v.SetString(replacement)
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8:
		v.SetBytes([]byte(replacement))
		if m.encoded == nil {
			m.encoded = make(map[string]string)
		}
		m.encoded[base64.StdEncoding.EncodeToString([]byte(replacement))] = replacement
	case v.Kind() == reflect.Interface:
		v.Set(reflect.ValueOf(replacement))
	default:
		m.fail()
	}
}

func (m *masker) url(replacement string) *url.URL {
	u, err := url.Parse(replacement)
	if err != nil || u.Host == "" {
		return &url.URL{Opaque: replacement}
	}
	return u
}

func (m *masker) fail() {
	m.err = errors.New("redacting configuration: a value that must be hidden cannot be replaced")
}

// readable writes fingerprints as they are where the encoder wrote them in base64.
func (m *masker) readable(text string) string {
	if len(m.encoded) == 0 {
		return text
	}
	pairs := make([]string, 0, 2*len(m.encoded))
	for from, to := range m.encoded {
		pairs = append(pairs, from, to)
	}
	return strings.NewReplacer(pairs...).Replace(text)
}
