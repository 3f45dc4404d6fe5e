package gateway

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"strings"
	"testing"

	"bronzeward/gateway/control"
	"bronzeward/policy"
)

// packedLaw is a law as OPA packs one.
func packedLaw(t *testing.T, b *policy.Bundle) []byte {
	t.Helper()
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	must(zipped.Write(b.Bytes()))(t)
	ok(t, zipped.Close())
	return out.Bytes()
}

// A law comes packed, is tried here, and becomes live by an act of its own. What does not read or pass
// is the caller's mistake, with the place, and the live one stays.
func TestALawIsBroughtPacked(t *testing.T) {
	t.Parallel()
	h := approving(t, oneApproval, nil)
	acts, ctx, sven := h.acts(), context.Background(), h.actor(t, "sven")
	live := func() string { return h.texts(t, "select revision from control.live_bundle")[0] }
	first := live()
	edited := func(path, text string) *policy.Bundle {
		return must(policy.OverlayFiles(must(oneApproval())(t).bundle, policy.File{Path: path, Body: []byte(text)}))(t)
	}
	next := edited("bronzeward/data.yaml", "ladder: {BW-SITE-001: shadow}\n")
	if next.Revision() == first {
		t.Fatal("the next law is the live one")
	}
	revision, _, err := acts.BringLaw(ctx, sven, packedLaw(t, next), nil)
	if err != nil || revision != next.Revision() || live() != first {
		t.Fatalf("%s, %v; live is %s", revision, err, live())
	}
	diff, err := acts.LawDifference(ctx, "live", revision[:8])
	if err != nil || len(diff.Data) != 1 || diff.Data[0].Key != "bronzeward.ladder.BW-SITE-001" {
		t.Errorf("%+v, %v", diff, err)
	}
	if _, _, err := acts.ActivateLaw(ctx, sven, revision[:8], "", nil); err != nil || live() != revision {
		t.Fatalf("%v; live is %s", err, live())
	}
	if got, _, err := acts.RollBackLaw(ctx, sven, "previous", "", nil); err != nil || got != first || live() != first {
		t.Fatalf("%s, %v; live is %s", got, err, live())
	}
	failing := edited("bronzeward/rules/site/site_test.rego", "package bronzeward.rules.site_test\n\ntest_nothing if false\n")
	for what, row := range map[string]struct {
		archive []byte
		says    string
	}{
		"no archive":         {[]byte("noise"), "no gzipped tar"},
		"a test that fails":  {packedLaw(t, failing), "test_nothing"},
		"the end is missing": {packedLaw(t, next)[:2000], "reading bundle"},
	} {
		_, _, err := acts.BringLaw(ctx, sven, row.archive, nil)
		if !errors.Is(err, control.ErrInvalid) || !strings.Contains(err.Error(), row.says) {
			t.Errorf("%s: %v", what, err)
		}
	}
	var denied *DeniedAct
	if _, _, err := acts.BringLaw(ctx, h.actor(t, "olga"), packedLaw(t, next), nil); !errors.As(err, &denied) || !strings.Contains(err.Error(), "BW-ACT-003") {
		t.Errorf("without the role: %v", err)
	}
	if _, _, err := acts.ActivateLaw(ctx, sven, "ffffffff", "", nil); !errors.Is(err, control.ErrNotFound) {
		t.Errorf("a law nobody saved: %v", err)
	}
	if live() != first {
		t.Errorf("%s is live", live())
	}
}
