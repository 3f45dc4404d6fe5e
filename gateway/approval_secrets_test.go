package gateway

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"

	"bronzeward/fixtures/idp"
	"bronzeward/fixtures/talosd"
	"bronzeward/gateway/control"
)

// hidden are the ways a secret may stand in a text: plain, in hexadecimal, percent-encoded, and
// in base64 at each of the three places it can have in a group.
func hidden(secret string) []string {
	out := []string{secret, hex.EncodeToString([]byte(secret)), strings.ToUpper(hex.EncodeToString([]byte(secret))), url.QueryEscape(secret)}
	for shift := range 3 {
		raw := append(make([]byte, shift), secret...)
		for _, e := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
			text := strings.TrimRight(e.EncodeToString(raw), "=")
			// The first and last digits have bits of what stands beside.
			out = append(out, text[(shift*8+5)/6:len(text)-1])
		}
	}
	return out
}

// leaks are the secrets that the text holds.
func leaks(text string, secrets ...string) (out []string) {
	for _, s := range secrets {
		for _, form := range hidden(s) {
			if strings.Contains(text, form) {
				out = append(out, form)
			}
		}
	}
	return out
}

// wholeDatabase is every column of every table of Bronzeward's, by its name: bytes as they are
// and in hexadecimal.
func (h *house) wholeDatabase(t testing.TB) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, column := range h.texts(t, `select format('%I.%I %I %s', c.table_schema, c.table_name, c.column_name, c.data_type)
		from information_schema.columns c join information_schema.tables t using (table_schema, table_name)
		where t.table_type = 'BASE TABLE' and c.table_schema in ('control', 'audit', 'public') order by 1`) {
		var table, name, kind string
		if _, err := fmt.Sscan(column, &table, &name, &kind); err != nil {
			t.Fatal(err)
		}
		as := name + "::text"
		if kind == "bytea" {
			as = "encode(" + name + ", 'escape') || ' ' || encode(" + name + ", 'hex')"
		}
		out[table+"."+name] = strings.Join(h.texts(t, "select "+as+" from "+table), "\n")
	}
	return out
}

// baseSecrets stand in the configuration of every worker here.
var baseSecrets = []string{"t3bwuq.wq2pgvthzcz26xoy", "iYAVXoos4Dn2yspNX", "w6uqgs.bk05tskjn0cew3l6", canary}

// redactsOne allows everything with one approval, and shows secrets to nobody.
var redactsOne = sync.OnceValues(func() (law, error) {
	l := admission(`"allow": true, "approvals": {"required": 1, "groups": ["` + idp.GroupApprovers + `"], "self_approval": false}`)
	l.Body = []byte(strings.Replace(string(l.Body), `"redact": false`, `"redact": true`, 1))
	return newLaw(l, quorumData("1", "false", ""))
})

// I13 with changes: from its capture to its end no secret of a change's configuration is in
// any column of the database, the log at its most talkative, a metric, an error, what an
// approver is shown or told. Control: with a sealer that seals nothing the search finds it.
func TestNoSecretOfAChangeIsKeptOrShown(t *testing.T) {
	t.Parallel()
	for _, seals := range []bool{true, false} {
		t.Run(map[bool]string{true: "sealed", false: "control: a sealer that seals nothing"}[seals], func(t *testing.T) {
			t.Parallel()
			registry := prometheus.NewRegistry()
			h := approving(t, redactsOne, func(s *setup) {
				s.node = func(_ string, c *talosd.Config) { c.MachineConfig = withCanary("before-" + canary) }
				s.gateway = func(c *Config) {
					c.Registry, c.Changes.Notify = registry, true
					if !seals {
						c.Sealer = trusting{}
					}
				}
			})
			h.gw.log = slog.New(slog.NewTextHandler(h.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
			shown := h.walk(t)
			for what, text := range shown {
				if found := leaks(text, baseSecrets...); len(found) > 0 {
					t.Errorf("%s holds %q", what, found)
				}
			}
			families := must(registry.Gather())(t)
			if found := leaks(fmt.Sprint(families), baseSecrets...); len(families) < 5 || len(found) > 0 {
				t.Errorf("the %d metrics hold %q", len(families), found)
			}
			h.book.Close()
			if found := leaks(h.logs.String(), baseSecrets...); !strings.Contains(h.logs.String(), "changes.apply") || len(found) > 0 {
				t.Errorf("the log holds %q", found)
			}
			columns, rows, where := h.wholeDatabase(t), 0, []string{}
			for name, text := range columns {
				rows += strings.Count(text, "\n")
				if found := leaks(text, baseSecrets...); len(found) > 0 {
					where = append(where, name)
				}
			}
			if len(columns) < 150 || rows < 300 {
				t.Errorf("%d columns with %d lines were searched: nothing is proven", len(columns), rows)
			}
			want := ""
			if !seals {
				want = "control.applied_copies.sealed control.sealed_bytes.sealed"
			}
			slices.Sort(where)
			if got := strings.Join(where, " "); got != want {
				t.Errorf("secrets stand in %q, want %q", got, want)
			}
		})
	}
}

// walk takes changes with secrets through everything that can become of them, and gives all
// that anybody was shown or told.
func (h *house) walk(t testing.TB) map[string]string {
	t.Helper()
	ctx, shown := context.Background(), map[string]string{}
	olga := h.as(t, "olga")
	a := olga.apply(t, "w1", noReboot(t, withCanary(canary)))
	id := waits(t, a)
	shown["the refusal"] = a.text()
	shown["the review"] = text(t, must(h.store.GetReview(ctx, id))(t))
	shown["the announcement"] = text(t, must(h.gw.Describe(ctx, id))(t))
	shown["the change"] = text(t, h.change(t, id))
	if !strings.Contains(shown["the review"], "password") || !strings.Contains(shown["the announcement"], "password") {
		t.Error("the changed path is not shown")
	}
	shown["the approval"] = text(t, h.approve(t, id, "ada"))
	ok(t, h.nodes["w1"].Fault(talosd.Fault{
		Kind: talosd.ErrorBefore, Code: uint32(codes.InvalidArgument), Message: "cannot unmarshal !!str `" + canary + "` at line 3 of\n" + string(withCanary(canary)),
	}))
	out, err := h.applyChange(t, "olga", id)
	ok(t, err)
	shown["the node's refusal"] = text(t, out)
	if !strings.Contains(out.Message, "cannot unmarshal") {
		t.Errorf("the node's refusal arrives as %q", out.Message)
	}
	ok(t, h.db.Exec(ctx, "update control.sealed_bytes set sealed = set_byte(sealed, 300, get_byte(sealed, 300) # 1) where change_id::text = $1", uuidOf(id)))
	_, err = h.applyChange(t, "olga", id)
	shown["what is told of altered bytes"] = actRefused(t, err, "BW-CHANGE-006").text
	ok(t, h.db.Exec(ctx, "update control.sealed_bytes set sealed = set_byte(sealed, 300, get_byte(sealed, 300) # 1) where change_id::text = $1", uuidOf(id)))
	out, err = h.applyChange(t, "olga", id)
	ok(t, err)
	shown["the answer"] = text(t, out)

	c, _, err := h.acts().Submit(ctx, h.actor(t, "olga"), control.Submission{Machine: "w1", Text: withCanary("next-" + canary), Mode: "no-reboot"}, keyed("key", "body"))
	ok(t, err)
	rejected := must(h.acts().Reject(ctx, h.actor(t, "ada"), c.ID, "no", nil))(t)
	shown["the end"] = text(t, rejected)
	broken := append(withCanary(canary), "\n  bad: [\n"...)
	_, _, err = h.submit(t, "olga", broken)
	shown["the refusal of a broken text"] = fmt.Sprint(err)
	ok(t, h.nodes["w1"].Stage(withCanary("staged-"+canary)))
	// It is drift, by which the next one would be refused; here it is to be discarded.
	ok(t, h.db.Exec(ctx, "update control.machines set applied_active = '', applied_persistent = '', serial = serial + 1"))
	staged := waits(t, olga.apply(t, "w1", noReboot(t, withCanary("third-"+canary))))
	shown["what is discarded"] = text(t, must(h.store.GetReview(ctx, staged))(t))
	if len(must(h.store.GetReview(ctx, staged))(t).Discards) == 0 {
		t.Error("nothing is discarded")
	}
	shown["the timeline"] = text(t, must(h.store.Timeline(ctx, h.machine(t, "w1").ID, control.TimelineItem{}, 100))(t))
	return shown
}

// text is a value as a door would show it.
func text(t testing.TB, v any) string {
	t.Helper()
	return string(must(json.Marshal(v))(t))
}
