package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"bronzeward/fixtures/idp"
	"bronzeward/fixtures/world"
)

// drafting is what the steps of S2 share: a house of two replicas, and the law as files.
type drafting struct {
	*play
	// first is the revision at the start, applied the entry of the apply that it allowed.
	first, applied string
}

// The rule that the scenario brings, as its author first writes it: the machine's name is wrong.
const siteRule = `# METADATA
# title: site
# description: What this site adds to the shipped law.
package bronzeward.rules.site

import data.bronzeward.lib.finding

# METADATA
# title: worker-2 is left alone
# description: Somebody is looking for a fault on it.
# custom:
#   code: BW-SITE-001
#   hint: "use worker-1; sven knows until when"
deny contains finding.because(rego.metadata.rule(), "worker-2 is left alone while a fault is looked for") if {
	input.call.class == "apply"
	input.machine.name == "worker2"
}
`

const siteTest = `package bronzeward.rules.site_test

import data.bronzeward.lib.sample_test as sample
import data.bronzeward.rules.site

test_an_apply_to_worker_2_is_found if {
	some found in site.deny with input as sample.patched({"/machine/name": "worker-2"})
	found.code == "BW-SITE-001"
}

test_an_apply_to_worker_1_is_not if {
	count(site.deny) == 0 with input as sample.patched({"/machine/name": "worker-1"})
}
`

// s2 is the law: a rule is written, fails its test, is mended, held against the past, made live, and
// taken up the ladder; what may not become live does not.
func s2(ctx context.Context, s *stage) (err error) {
	w, err := s.world(ctx, world.Config{Quorum: 1, Workers: 2})
	if err != nil {
		return err
	}
	defer func() { err = s.leave(ctx, w, err) }()
	if _, err := w.StartGateway(ctx, "gateway-2"); err != nil {
		return err
	}
	d := &drafting{play: &play{stage: s, w: w}}
	if d.db, err = pgx.Connect(ctx, w.Postgres.DSN(world.Database, "postgres")); err != nil {
		return err
	}
	defer func() { _ = d.db.Close(context.WithoutCancel(ctx)) }()
	for _, step := range []func(context.Context) error{
		d.past, d.failing, d.mended, d.replayed, d.shadowed, d.warned, d.denied,
		d.badDrafts, d.signed, d.withoutTheLaw,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// past is a day of which the law has something to say.
func (d *drafting) past(ctx context.Context) (err error) {
	// Who sets a limit on what a law may deny of the past reads the book.
	if err := edit(d.w.PolicyDir(), idp.GroupPolicyAdmins+": [policy-admin]", idp.GroupPolicyAdmins+": [policy-admin, auditor]"); err != nil {
		return err
	}
	if out, err := d.w.Bronzeward(ctx, "sven", "policy", "activate", d.w.PolicyDir()); err != nil {
		return fmt.Errorf("activating the first law: %w\n%s", err, out)
	}
	if d.first, err = d.live(ctx); err != nil {
		return err
	}
	id, file, err := d.approved(ctx, "worker-2")
	if err != nil {
		return err
	}
	if out, err := d.apply(ctx, "olga", "worker-2", file); err != nil {
		return fmt.Errorf("an approved apply: %w\n%s", err, out)
	}
	if err := d.db.QueryRow(ctx, "select id::text from audit.entries where change_id = $1 and attempt_id is not null", id).Scan(&d.applied); err != nil {
		return fmt.Errorf("the entry of the apply: %w", err)
	}
	for range 3 {
		if out, err := d.w.Talosctl(ctx, "vera", "-n", "worker-2", "version"); err != nil {
			return fmt.Errorf("a read: %w\n%s", err, out)
		}
	}
	d.did("a day goes by under the first law: reads, and an approved apply to worker-2 (%.8s…)", d.applied)
	return nil
}

// live is the revision that the database says is live.
func (d *drafting) live(ctx context.Context) (revision string, err error) {
	return revision, d.db.QueryRow(ctx, "select revision from control.live_bundle").Scan(&revision)
}

// stays checks that the live revision is still this one, and that both replicas judge by it.
func (d *drafting) stays(ctx context.Context, revision string) error {
	if now, err := d.live(ctx); err != nil || now != revision {
		return errors.Join(err, fmt.Errorf("revision %s is live, want %s", now, revision))
	}
	return d.everywhere(ctx, revision)
}

// everywhere waits until each replica says that it judges by the revision; the deadline only ends a
// scenario that fails.
func (d *drafting) everywhere(ctx context.Context, revision string) error {
	for name, g := range d.w.Gateways {
		client, err := d.w.WebClient()
		if err != nil {
			return err
		}
		if err := comesAbout(ctx, name+" to judge by "+revision, func() (bool, error) {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, d.w.At(g).API()+"/readyz", nil)
			if err != nil {
				return false, err
			}
			answer, err := client.Do(request)
			if err != nil {
				return false, err
			}
			defer answer.Body.Close()
			var says struct {
				Revision string `json:"policy_revision"`
			}
			return answer.StatusCode == http.StatusOK && json.NewDecoder(answer.Body).Decode(&says) == nil && says.Revision == revision, nil
		}); err != nil {
			return err
		}
		client.CloseIdleConnections()
	}
	return nil
}

// code checks that a command ended with an exit code, and what it said.
func (d *drafting) code(what, out string, err error, code int, must ...string) error {
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != code {
		return fmt.Errorf("%s does not end with code %d (%w):\n%s", what, code, err, out)
	}
	return d.refused(what, out, err, must...)
}

func (d *drafting) rule(files map[string]string) error {
	for name, text := range files {
		path := filepath.Join(d.w.PolicyDir(), "bronzeward", "rules", "site", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// failing writes the rule with its mistake. Its test finds it; nothing becomes live.
func (d *drafting) failing(ctx context.Context) error {
	if err := d.rule(map[string]string{"site.rego": siteRule, "site_test.rego": siteTest}); err != nil {
		return err
	}
	out, err := d.w.Bronzeward(ctx, "", "policy", "test", d.w.PolicyDir())
	if err := d.code("a draft whose test fails", out, err, 3, "FAIL", "test_an_apply_to_worker_2_is_found", "site_test.rego:6", "1 failed"); err != nil {
		return err
	}
	out, err = d.w.Bronzeward(ctx, "sven", "policy", "activate", d.w.PolicyDir())
	if err := d.refused("activating a draft whose test fails", out, err, "does not pass its trial", "test_an_apply_to_worker_2_is_found"); err != nil {
		return err
	}
	d.did("a rule with a misspelt name: `policy test` names the test and its line, ends with 3; control: it cannot be activated")
	return d.stays(ctx, d.first)
}

// mended corrects it, still without an effect on anybody.
func (d *drafting) mended(ctx context.Context) error {
	if err := d.rule(map[string]string{"site.rego": strings.Replace(siteRule, `"worker2"`, `"worker-2"`, 1)}); err != nil {
		return err
	}
	for _, verb := range []string{"check", "test"} {
		if out, err := d.w.Bronzeward(ctx, "", "policy", verb, d.w.PolicyDir()); err != nil {
			return fmt.Errorf("policy %s: %w\n%s", verb, err, out)
		}
	}
	d.did("the rule is mended: `policy check` and `policy test` find nothing")
	return d.stays(ctx, d.first)
}

// replayed holds the draft against the past: exactly the apply to worker-2 would be denied.
func (d *drafting) replayed(ctx context.Context) error {
	out, err := d.auditor(ctx, d.w, "policy", "replay", "--bundle", d.w.PolicyDir(), "--since", "1d", "-o", "json")
	if err := d.code("a replay that finds something", out, err, 3); err != nil {
		return err
	}
	var report struct {
		NowDenied  int64 `json:"now_denied"`
		NowAllowed int64 `json:"now_allowed"`
		Changed    []struct {
			ID   uuid.UUID
			Kind string
			New  []string
		}
	}
	if err := json.NewDecoder(strings.NewReader(out)).Decode(&report); err != nil {
		return fmt.Errorf("reading the replay: %w\n%s", err, out)
	}
	denied := ""
	for _, c := range report.Changed {
		if c.Kind == "now denied" {
			denied += c.ID.String() + strings.Join(c.New, ",")
		}
	}
	if report.NowDenied != 1 || report.NowAllowed != 0 || denied != d.applied+"BW-SITE-001" {
		return fmt.Errorf("the replay does not say that only entry %s would be denied, by BW-SITE-001:\n%s", d.applied, out)
	}
	d.did("the draft against the last day: one decision now denied, the apply to worker-2, by BW-SITE-001; exit code 3")
	out, err = d.w.Bronzeward(ctx, "sven", "policy", "activate", d.w.PolicyDir(), "--replay-since", "1d")
	if err := d.refused("activating what denies the past", out, err, "1 past allows would be denied now"); err != nil {
		return err
	}
	d.did("control: `policy activate --replay-since 1d` with that limit of none leaves the live law")
	return d.stays(ctx, d.first)
}
