package upstream

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"bronzeward/fixtures/talospki"
)

func TestFilesAreReadAgainWhenTheyChange(t *testing.T) {
	p := newPKI(t)
	dir := t.TempDir()
	f := &FileCredential{Cert: filepath.Join(dir, "crt"), Key: filepath.Join(dir, "key"), CA: filepath.Join(dir, "ca")}

	if _, err := f.Credential(ctxFor(t), "lab"); err == nil {
		t.Error("no files gave a credential")
	}

	write := func(path string, b []byte, at time.Time) {
		must(t, os.WriteFile(path, b, 0o600))
		must(t, os.Chtimes(path, at, at))
	}

	start := time.Now().Add(-time.Hour)
	first, err := talospki.Client(p.ca, time.Now(), RoleImpersonator)
	must(t, err)
	second, err := talospki.Client(p.ca, time.Now(), RoleImpersonator)
	must(t, err)

	write(f.Cert, first.Cert, start)
	write(f.Key, first.Key, start)
	write(f.CA, p.ca.Cert, start)

	leaf := func() []byte {
		c, err := f.Credential(ctxFor(t), "lab")
		must(t, err)

		if len(c.CAs) != 1 || !c.CAs[0].Equal(leafFor(t, p.ca)) || c.Version != 0 {
			t.Errorf("got %d CAs, version %d", len(c.CAs), c.Version)
		}

		return c.Certificate.Certificate[0]
	}

	a := leaf()

	write(f.Cert, second.Cert, start.Add(time.Minute)) // half a rotation

	if !slices.Equal(leaf(), a) {
		t.Error("a certificate was taken without its key")
	}

	write(f.Key, second.Key, start.Add(time.Minute))

	if slices.Equal(leaf(), a) {
		t.Error("the new certificate was not taken")
	}
}

func TestFilesThatAreNotFitLeaveTheOneBeforeInUse(t *testing.T) {
	p := newPKI(t)
	dir := t.TempDir()

	var log bytes.Buffer

	f := &FileCredential{
		Cert: filepath.Join(dir, "crt"), Key: filepath.Join(dir, "key"), CA: filepath.Join(dir, "ca"),
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	}
	admin := pairWith(t, p.ca, talospki.ClientSpec{Roles: []string{RoleImpersonator, RoleAdmin}})
	at := time.Now().Add(-time.Hour)
	write := func(pair talospki.Pair, ca []byte) {
		at = at.Add(time.Minute)
		for path, text := range map[string][]byte{f.Cert: pair.Cert, f.Key: pair.Key, f.CA: ca} {
			must(t, os.WriteFile(path, text, 0o600))
			must(t, os.Chtimes(path, at, at))
		}
	}

	write(admin, p.ca.Cert)

	if _, err := f.Credential(ctxFor(t), "lab"); reasonOf(err) != ReasonRoles {
		t.Errorf("an administrator's certificate gave %v", err)
	}

	good := pairWith(t, p.ca, talospki.ClientSpec{Roles: []string{RoleImpersonator}})
	write(good, p.ca.Cert)
	first, err := f.Credential(ctxFor(t), "lab")
	must(t, err)

	for name, bad := range map[string]func(){
		"an administrator": func() { write(admin, p.ca.Cert) },
		"the CA's key":     func() { write(good, append(slices.Clone(p.ca.Cert), p.ca.Key...)) },
	} {
		bad()
		log.Reset()

		for range 2 {
			got, err := f.Credential(ctxFor(t), "other")
			if err != nil || !slices.Equal(got.Certificate.Certificate[0], first.Certificate.Certificate[0]) {
				t.Errorf("%s: %v", name, err)
			}
		}

		if strings.Count(log.String(), "the one before stays") != 1 {
			t.Errorf("%s: the log is %q", name, log.String())
		}
	}
}

func TestACredentialPrintsNoKey(t *testing.T) {
	p := newPKI(t)
	c, err := p.Credential(ctxFor(t), "")
	must(t, err)

	c.Version = 3
	checked, err := newCredential(c, time.Now())
	must(t, err)

	raw, err := json.Marshal(map[string]any{"a": c, "b": &c, "c": checked})
	must(t, err)

	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "a", c, "b", &c, "c", checked)

	const says = "Talos credential, version 3"

	for _, got := range []string{
		fmt.Sprint(c, &c, checked), fmt.Sprintf("%v %+v %#v %s %x %q %d", c, c, c, c, c, c, c), fmt.Sprintf("%#v %+v", checked, *checked),
		string(raw), log.String(), fmt.Sprintf("%v", struct{ In Credential }{c}),
	} {
		if left := strings.NewReplacer(says, "").Replace(got); !strings.Contains(got, says) || len(left) > 200 {
			t.Errorf("got %q", got)
		}
	}
}
