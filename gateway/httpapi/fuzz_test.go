package httpapi

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"bronzeward/gateway/httpapi/api"
)

// FuzzBody holds the strict reader against encoding/json: whatever it takes, that takes as
// well and reads the same, and no NUL or replaced character comes out of it.
func FuzzBody(f *testing.F) {
	for _, row := range every {
		if body, ok := row.body.(string); ok {
			f.Add([]byte(body))
		}
	}
	f.Add([]byte(`{"digest":"\ud83d\ude00","also":[{"id":"\\ud800","digest":"\uFFFD"}]}`))
	f.Add([]byte(`{"digest":"\ud800"}`))
	f.Add([]byte(`{"digest":"d","digest":"d"}`))
	f.Add([]byte(`{"machines":[{"labels":{"a":1}}]}{`))
	f.Fuzz(func(t *testing.T, text []byte) {
		strictly[api.NewApproval](t, text)
		strictly[api.NewMachines](t, text)
		strictly[api.NewCertificate](t, text)
		strictly[api.NewChange](t, text)
		strictly[api.MachineUpdate](t, text)
		strictly[struct{}](t, text)
	})
}

func strictly[T any](t *testing.T, text []byte) {
	t.Helper()
	var got, want T
	if err := decodeText(text, &got); err != nil {
		if p := problemOf(err); p.status != 400 || p.detail == "" {
			t.Fatalf("%q: %v", text, err)
		}
		return
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&want); err != nil || dec.More() || !reflect.DeepEqual(got, want) {
		t.Fatalf("%q is taken as %+v; encoding/json: %+v, %v", text, got, want, err)
	}
	again, err := json.Marshal(got)
	if err != nil || bytes.Contains(again, []byte(`\u0000`)) {
		t.Fatalf("%q holds a NUL: %s, %v", text, again, err)
	}
	if strings.Contains(string(again), `\ufffd`) && !bytes.Contains(bytes.ToLower(text), []byte(`\ufffd`)) && !bytes.ContainsRune(text, utf8.RuneError) {
		t.Fatalf("%q was repaired into %s", text, again)
	}
}

func TestTheStrictReaderTakesWhatIsWellFormed(t *testing.T) {
	for _, row := range []struct {
		name, text string
		ok         bool
	}{
		{"a pair", `{"digest":"\ud83d\ude00"}`, true},
		{"a replacement character, meant", `{"digest":"\ufffd"}`, true},
		{"a replacement character and an escape", "{\"digest\":\"\uFFFD\\u003c\"}", true},
		{"a backslash before ud800", `{"digest":"\\ud800 �"}`, true},
		{"half a pair", `{"digest":"\ud800"}`, false},
		{"the other half", `{"digest":"\ude00"}`, false},
		{"half a pair behind a backslash", `{"digest":"\\\ud800"}`, false},
		{"half a pair in a name", `{"digest":"d","\udfff":1}`, false},
		{"twice in a map", `{"addresses":[],"port":1,"labels":{"a":"b","a":"c"}}`, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			var approval api.NewApproval
			err := decodeText([]byte(row.text), &approval)
			if strings.Contains(row.text, "labels") {
				var update api.MachineUpdate
				err = decodeText([]byte(row.text), &update)
			}
			if (err == nil) != row.ok {
				t.Errorf("%v", err)
			}
		})
	}
}

func FuzzPlain(f *testing.F) {
	f.Add("a\u202eb\n\x00é")
	f.Fuzz(func(t *testing.T, text string) {
		for _, out := range []string{plain(text, 50), quoted(text)} {
			if strings.ContainsFunc(out, unlike) || len(out) > 10*mostQuoted+10 {
				t.Errorf("%q became %q", text, out)
			}
		}
	})
}
