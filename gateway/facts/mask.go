package facts

import (
	"encoding/base64"
	"errors"
	"net/url"
	"reflect"
	"strings"

	"github.com/siderolabs/talos/pkg/machinery/config/config"
	"github.com/siderolabs/talos/pkg/machinery/config/types/meta"
	"github.com/siderolabs/talos/pkg/machinery/config/types/v1alpha1"
)

// masker replaces what a policy may not see by fingerprints, in place, and collects
// what it replaced. It follows the same rule as Facts do: show.
type masker struct {
	digester Digester
	secrets  *secrets
	err      error

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

		name := safeKey(m.digester, key.String())
		if name != key.String() {
			m.secrets.add(key.String())
			v.SetMapIndex(key, reflect.Value{})
		}
		v.SetMapIndex(reflect.ValueOf(name).Convert(key.Type()), value)
	}
}

func (m *masker) leaf(at place, v reflect.Value) {
	if v.IsZero() || v.Kind() == reflect.Slice && v.Len() == 0 {
		return
	}
	if at.field == "name" && m.kind != "v1alpha1" && v.Kind() == reflect.String {
		// The same rule as for a document's name elsewhere.
		if name := safeKey(m.digester, v.String()); name != v.String() {
			m.secrets.add(v.String())
			v.SetString(name)
		}
		return
	}
	value := show(m.digester, m.kind, at.field, v)
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
	m.replace(v, replacement)
}

// replace writes a fingerprint, or an origin with one, where a value stood.
func (m *masker) replace(v reflect.Value, replacement string) {
	if !v.CanSet() {
		m.fail()
		return
	}
	switch value := v.Addr().Interface().(type) {
	case *v1alpha1.Unstructured:
		m.secrets.addContent(value.Object)
		*value = v1alpha1.Unstructured{Object: map[string]any{"hidden": replacement}}
		return
	case *v1alpha1.ArgValue:
		written, err := value.MarshalYAML()
		if err != nil {
			m.fail()
			return
		}
		m.secrets.addNode(written)
		*value = v1alpha1.NewArgValue(replacement, nil)
		return
	case *meta.URL:
		m.secrets.addURL(value.URL)
		value.URL = m.url(replacement)
		return
	case *v1alpha1.Endpoint:
		m.secrets.addURL(value.URL)
		value.URL = m.url(replacement)
		return
	}
	switch {
	case v.Kind() == reflect.String:
		text := v.String()
		if u, err := url.Parse(text); err == nil && u.Host != "" {
			m.secrets.addURL(u)
		}
		m.secrets.add(text)
		v.SetString(replacement)
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8:
		m.secrets.add(string(v.Bytes()))
		v.SetBytes([]byte(replacement))
		if m.encoded == nil {
			m.encoded = make(map[string]string)
		}
		m.encoded[base64.StdEncoding.EncodeToString([]byte(replacement))] = replacement
	case v.Kind() == reflect.Interface:
		m.secrets.addContent(v.Interface())
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
