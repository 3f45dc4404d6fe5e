package gateway

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bronzeward/fixtures/idp"
	"bronzeward/policytest/lawsign"
)

// The commands as people type them: a law that asks for agreement is saved, agreed to and made live, then
// one that is signed, with the keys in the configuration; and back. The controls are the same commands
// too early, by the wrong person and without the signature.
func TestALawIsMadeLiveByCommands(t *testing.T) {
	ctx := context.Background()
	s := newStreet(t, 1, 0)
	law := func(args ...string) []string { return append([]string{"policy"}, args...) }
	runs := func(person, says string, args ...string) {
		t.Helper()
		if out, err := s.Bronzeward(ctx, person, law(args...)...); err != nil || !strings.Contains(out, says) {
			t.Fatalf("%s, policy %v: %v\n%s", person, args, err, out)
		}
	}
	refused := func(person, says string, args ...string) {
		t.Helper()
		if out, err := s.Bronzeward(ctx, person, law(args...)...); err == nil || !strings.Contains(out, says) {
			t.Errorf("%s, policy %v: %v\n%s", person, args, err, out)
		}
	}
	live := func() string {
		t.Helper()
		return must(s.db.Texts(ctx, "select revision from control.live_bundle"))(t)[0]
	}
	edit := func(name, old, fresh string) {
		t.Helper()
		at := filepath.Join(s.PolicyDir(), filepath.FromSlash(name))
		text := string(must(os.ReadFile(at))(t))
		if !strings.Contains(text, old) {
			t.Fatalf("%s has no %q", name, old)
		}
		ok(t, os.WriteFile(at, []byte(strings.Replace(text, old, fresh, 1)), 0o600))
	}
	edit("bronzeward/data.yaml", idp.GroupApprovers+": [approver]", idp.GroupApprovers+": [approver, policy-admin]")
	runs("sven", "is live", "activate", s.PolicyDir())
	first := live()

	edit("bronzeward/api/data.yaml", "policy_approvals: 0", "policy_approvals: 1")
	refused("sven", "locks out", "activate", s.PolicyDir())
	runs("sven", "is saved and not live", "save", s.PolicyDir())
	second := must(s.db.Texts(ctx, "select revision from control.bundles order by saved_at desc limit 1"))(t)[0]
	runs("ada", "you agree", "approve", second[:8])
	runs("sven", "is live", "activate", second[:8])
	if live() != second {
		t.Error("the second is not live")
	}
	refused("sven", "BW-APPROVAL-004", "rollback", "previous")
	refused("olga", "BW-ACT-003", "approve", first[:8])
	runs("ada", "you agree", "approve", first[:8])
	runs("sven", "is live", "rollback", "previous")
	if live() != first {
		t.Error("the first is not live again")
	}
	runs("sven", "rollback", "history")

	key := must(lawsign.New())(t)
	ok(t, os.WriteFile(s.Path("law.pub"), []byte(key.Public), 0o600))
	config := must(os.ReadFile(s.ConfigFile()))(t)
	ok(t, os.WriteFile(s.ConfigFile(), append(config, "policy: {keys: {2026: {algorithm: ES256, file: law.pub}}}\n"...), 0o600))
	signed := t.TempDir()
	ok(t, os.CopyFS(signed, os.DirFS(s.PolicyDir())))
	edit("bronzeward/api/data.yaml", "policy_approvals: 1", "policy_approvals: 0")
	refused("sven", "saved without a signature", "activate", s.PolicyDir()) // the live law is not signed
	ok(t, os.WriteFile(s.ConfigFile(), config, 0o600))
	edit("bronzeward/data.yaml", "# ", "# Signed. ")
	ok(t, lawsign.Number(s.PolicyDir(), 1))
	ok(t, key.Sign(s.PolicyDir()))
	runs("sven", "is live", "activate", s.PolicyDir())
	ok(t, os.WriteFile(s.ConfigFile(), append(config, "policy: {keys: {2026: {algorithm: ES256, file: law.pub}}}\n"...), 0o600))
	third := live()
	refused("sven", "BW-BUNDLE-001", "activate", signed) // that one is not
	refused("sven", "BW-BUNDLE-001", "rollback", first[:8])
	ok(t, lawsign.Number(s.PolicyDir(), 2))
	refused("sven", ".manifest is not as it was signed", "activate", s.PolicyDir())
	ok(t, key.Sign(s.PolicyDir()))
	runs("sven", "is live", "activate", s.PolicyDir())
	refused("sven", "BW-BUNDLE-002", "activate", s.PolicyDir())
	if live() != third {
		t.Error("the third is not live")
	}
}
