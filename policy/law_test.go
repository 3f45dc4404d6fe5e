package policy

import (
	"context"
	"io/fs"
	"testing"
	"testing/fstest"
)

func files(m map[string]string) fs.FS {
	out := fstest.MapFS{}
	for name, body := range m {
		out[name] = &fstest.MapFile{Data: []byte(body)}
	}
	return out
}

func TestAnOrdinaryApplyIsAllowedWithoutAQuorum(t *testing.T) {
	d := lawOf(t, noQuorum).Decide(context.Background(), sampleApply())
	if !d.Allow {
		t.Fatalf("refused: %+v", d.Reasons)
	}
	if len(d.UpstreamRoles) != 1 || d.UpstreamRoles[0] != "os:admin" || !d.Redact || d.Approvals.Required != 0 {
		t.Errorf("decision = %+v", d)
	}
}

func TestTheLawAllowsNoForbiddenSample(t *testing.T) {
	e := lawOf(t, noQuorum)
	for _, s := range samples() {
		d := e.Decide(context.Background(), s.facts)
		if d.Allow == s.forbidden {
			t.Errorf("%s: allow = %v, reasons %+v", s.name, d.Allow, d.Reasons)
		}
		t.Log(s.name, d.Allow, d.Codes())
	}
}

func shippedDir(t *testing.T) fs.FS {
	t.Helper()
	sub, err := fs.Sub(shipped, "bundle")
	if err != nil {
		t.Fatal(err)
	}
	return sub
}
