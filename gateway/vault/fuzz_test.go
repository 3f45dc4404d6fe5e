package vault

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"
)

// Whatever a stranger writes into a row is taken apart without a panic, and into the very bytes
// that it is made of.
func FuzzSplitTransit(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{2})
	f.Add(append([]byte{2, 0, 0, 0, 0, 1, 2, 3, 4, 0, 9}, "vault:v1:AAAA0123456789012345678901234567890"...))
	f.Add(append([]byte{2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, make([]byte, 2000)...))
	f.Add([]byte("vault:v1:abcdef"))
	f.Fuzz(func(t *testing.T, sealed []byte) {
		head, wrapped, rest, bad := splitTransit(sealed)
		if bad != nil {
			if head != nil || rest != nil || wrapped != "" || bad.Class == nil || bad.Kind == "" {
				t.Fatalf("refused as %v, with something of it", bad)
			}
			return
		}
		if !bytes.Equal(append(bytes.Clone(head), rest...), sealed) || string(head[fixedSize:]) != wrapped || len(rest) < overhead || len(wrapped) > mostWrapped {
			t.Fatalf("%x is taken apart wrongly", sealed)
		}
	})
}

func FuzzVersionOf(f *testing.F) {
	for _, text := range []string{"vault:v1:AAAA", "vault:v01:AAAA", "vault:v-1:", "vault:v0:x", "vault:v1", ":v1:", "vault:v99999999999999999999:a", "vault:v+1:a"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		version, err := versionOf(text)
		if err == nil && (version < 1 || !strings.HasPrefix(text, fmt.Sprintf("vault:v%d:", version))) {
			t.Fatalf("%q is version %d", text, version)
		}
		_, signed, err := parseSignature(text)
		if err != nil {
			return
		}
		if signed != version {
			t.Fatalf("%q is a signature of version %d", text, signed)
		}
	})
}

// What OpenBao says about a key is read strictly: a version that is given has its time.
func FuzzKeyInfo(f *testing.F) {
	f.Add([]byte(`{"keys": {"1": 1700000000, "2": 1700000001}, "latest_version": 2, "min_decryption_version": 1, "type": "aes256-gcm96"}`))
	f.Add([]byte(`{"keys": {"1": {"creation_time": "2030-01-02T03:04:05.6Z", "public_key": "AAAA"}}, "latest_version": 1, "min_decryption_version": 0, "exportable": true}`))
	f.Add([]byte(`{"keys": {"x": 1}}`))
	f.Add([]byte(`{"keys": {"1": null}, "latest_version": "1"}`))
	f.Add([]byte(`{"keys": {"1": 1e400}, "latest_version": 1.5}`))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var data map[string]any
		decoder := json.NewDecoder(bytes.NewReader(raw))
		decoder.UseNumber()
		if decoder.Decode(&data) != nil {
			return
		}
		info, err := parseKeyInfo(data)
		if err != nil {
			return
		}
		for version := range info.made {
			if version < 1 {
				t.Fatalf("there is a version %d", version)
			}
		}
		if info.latest < 0 || info.oldest < 0 {
			t.Fatalf("got %+v", info)
		}
	})
}

// The documents of KV, as anybody may have written them, and as they come back from JSON.
func FuzzDocuments(f *testing.F) {
	certificate, key, ca := pair(f, 1)
	for _, text := range [][]string{{string(certificate), string(key), string(ca)}, {"", "", ""}, {string(ca), string(key), string(ca) + string(ca)}, {string(key), string(certificate), string(key)}} {
		raw, err := json.Marshal(map[string]any{
			"certificate": text[0], "key": text[1], "ca": text[2],
			"current": text[2], "previous": text[0], "key_version": 1,
			"keys": map[string]any{"k1": map[string]any{"wrapped": "vault:v1:AAAA", "key_made": 1, "usable_from": time.Unix(1, 0)}},
		})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Add([]byte(`{"keys": {"k1": null, "": {}}, "key_version": -1}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var file caFile
		if json.Unmarshal(raw, &file) == nil {
			if current, previous, err := file.parse(); err == nil && (!current.IsCA || previous != nil && !previous.IsCA || file.KeyVersion < 1) {
				t.Fatal("an authority that is none")
			}
		}
		var keys digestKeysFile
		if json.Unmarshal(raw, &keys) == nil && keys.check() == nil {
			for name := range maps.Keys(keys.Keys) {
				if n := digestNumber(name); n < 1 || name != fmt.Sprintf("k%d", n) {
					t.Fatalf("a key is named %q", name)
				}
			}
		}
	})
}
