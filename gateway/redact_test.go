package gateway

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/siderolabs/talos/pkg/machinery/api/machine"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"bronzeward/fixtures/oracle"
	"bronzeward/fixtures/talosd"
)

// canary is a secret of the configuration: a value of an environment variable.
const canary = "cAnArY-7f3a91d2e4b65c08"

// withCanary is a configuration in which secrets stand where Talos keeps them.
func withCanary(value string) []byte {
	return []byte(strings.Replace(string(oracle.Base()), "machine:\n", "machine:\n    registries:\n        config:\n            registry.test:\n                auth:\n                    username: robot\n                    password: "+value+"\n", 1))
}

// encodings are the canary's usual ones.
func encodings(secret string) []string {
	return []string{
		secret, base64.StdEncoding.EncodeToString([]byte(secret)), hex.EncodeToString([]byte(secret)),
		base64.RawURLEncoding.EncodeToString([]byte(secret)),
	}
}

// noCanary fails when the text has the secret in a usual encoding.
func noCanary(t testing.TB, where, text string) {
	t.Helper()
	for _, e := range encodings(canary) {
		if strings.Contains(text, e) {
			t.Errorf("%s holds the secret as %s", where, e)
		}
	}
}

// I13: neither a dry run's diff nor a node's error shows a secret to who may not see it,
// and none is in the book or in the log.
func TestSecretsAreShownToNobodyWhoMayNotSeeThem(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(s *setup) {
		s.law = openLawThatRedacts
		s.node = func(_ string, c *talosd.Config) { c.MachineConfig = withCanary("before-" + canary) }
	})
	c := h.as(t, "olga")

	dry := succeeded(t, c.apply(t, "w1", applyRequest(t, withCanary(canary), machine.ApplyConfigurationRequest_NO_REBOOT, true)))
	var r machine.ApplyConfigurationResponse
	ok(t, proto.Unmarshal(dry.messages[0], &r))
	if details := r.GetMessages()[0].GetModeDetails(); !strings.Contains(details, "Dry run summary") || !strings.Contains(details, "password") {
		t.Errorf("the diff is gone: %q", details)
	}
	noCanary(t, "the dry run's answer", string(bytes.Join(dry.messages, nil)))

	for _, dryRun := range []bool{true, false} {
		ok(t, h.nodes["w1"].Fault(talosd.Fault{
			Kind: talosd.ErrorBefore, Code: uint32(codes.InvalidArgument), DryRuns: true,
			Message: "cannot unmarshal !!str `" + canary + "` at line 3 of\n" + string(withCanary(canary)),
		}))
		a := c.apply(t, "w1", applyRequest(t, withCanary(canary), machine.ApplyConfigurationRequest_NO_REBOOT, dryRun))
		if a.code() != codes.InvalidArgument || !strings.Contains(a.text(), "cannot unmarshal") {
			t.Errorf("the node's refusal arrives as %v", a.err)
		}
		noCanary(t, "the node's refusal", a.text())
	}
	broken := c.apply(t, "w1", noReboot(t, append(withCanary(canary), "\n  bad: [\n"...)))
	noCanary(t, "the refusal of a broken configuration", broken.text())
	succeeded(t, c.apply(t, "w1", noReboot(t, withCanary(canary))))
	h.noCanaryKept(t)
}

// noCanaryKept looks for the secret in all rows and in the log.
func (h *house) noCanaryKept(t testing.TB) {
	t.Helper()
	h.book.Close()
	noCanary(t, "the log", h.logs.String())
	for _, table := range []string{"audit.entries", "audit.outcomes"} {
		rows := h.texts(t, "select convert_from(record, 'UTF8') || t::text from "+table+" t")
		noCanary(t, table, strings.Join(rows, "\n"))
		if len(rows) < 4 {
			t.Errorf("%s has %d rows only: nothing is proven", table, len(rows))
		}
	}
	for _, table := range []string{"control.attempts", "control.machines", "control.observations"} {
		noCanary(t, table, strings.Join(h.texts(t, "select t::text from "+table+" t"), "\n"))
	}
}

// What a node says when something harmless is read is for whoever asked: it may quote what the
// node holds, and nothing here could tell.
func TestANodesWordsOfAReadingAreKeptNowhere(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	c := h.as(t, "olga")
	for _, method := range []string{methodVersion, "/cosi.resource.State/Get"} {
		ok(t, h.nodes["w1"].Fault(talosd.Fault{Kind: talosd.ErrorBefore, Method: method, Code: uint32(codes.Internal), Message: "holding " + canary, Times: -1}))
	}
	for range 4 {
		if a := c.call(bounded(t), methodVersion, to("w1"), nil); a.code() != codes.Internal || !strings.Contains(a.text(), canary) {
			t.Errorf("the caller gets %v: the test proves nothing, or the node's words are lost", a.err)
		}
	}
	a := c.apply(t, "w1", noReboot(t, labelled("one")))
	if a.code() != codes.Unavailable || !strings.Contains(a.text(), "Internal") {
		t.Errorf("an apply to a machine that cannot be read got %v", a.err)
	}
	noCanary(t, "the refusal", a.text())
	h.noCanaryKept(t)
}

// Control: who may see secrets is shown the node's own words. Nothing more is kept for it.
func TestWhoMaySeeSecretsIsShownThem(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(s *setup) {
		s.node = func(_ string, c *talosd.Config) { c.MachineConfig = withCanary("before-" + canary) }
		s.law = openLaw // it redacts nothing
	})
	c := h.as(t, "olga")
	dry := succeeded(t, c.apply(t, "w1", applyRequest(t, withCanary(canary), machine.ApplyConfigurationRequest_NO_REBOOT, true)))
	if !bytes.Contains(dry.messages[0], []byte(canary)) {
		t.Error("the secret is not in the node's own answer: the test above proves nothing")
	}
	ok(t, h.nodes["w1"].Fault(talosd.Fault{Kind: talosd.ErrorBefore, Code: uint32(codes.InvalidArgument), Message: "bad value " + canary}))
	if a := c.apply(t, "w1", noReboot(t, withCanary(canary))); !strings.Contains(a.text(), canary) {
		t.Errorf("got %v", a.err)
	}
	succeeded(t, c.apply(t, "w1", noReboot(t, withCanary(canary))))
	h.noCanaryKept(t)
}

// Warnings of the law are added to the node's answer, after the node's own.
func TestWarningsOfTheLawAreInTheAnswer(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(s *setup) {
		s.law = func() (law, error) {
			l := admission(`"allow": true, "approvals": {"required": 0, "groups": [], "self_approval": false}`)
			l.Body = bytes.Replace(l.Body, []byte(`"reasons": []`), []byte(
				`"reasons": [{"code": "BW-TEST-001", "message": "mind the gap", "hint": "", "rule": "test", "severity": "warn"}]`), 1)
			return newLaw(l)
		}
	})
	a := succeeded(t, h.as(t, "olga").apply(t, "w1", noReboot(t, labelled("one"))))
	var r machine.ApplyConfigurationResponse
	ok(t, proto.Unmarshal(a.messages[0], &r))
	if w := r.GetMessages()[0].GetWarnings(); len(w) == 0 || w[len(w)-1] != "BW-TEST-001: mind the gap" {
		t.Errorf("warnings are %q", w)
	}
}
