package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"bronzeward/audit"
	"bronzeward/gateway/control"
	"bronzeward/policy"
	"bronzeward/policytest/replay"
)

// compiled are the laws of all houses by their revision, for judging again.
var compiled sync.Map //nolint:gochecknoglobals // one per run of the tests, because compiling is slow

// again judges a house's whole book again, each decision by its own law.
func (h *house) again(t testing.TB) replay.Report {
	t.Helper()
	ctx := context.Background()
	var rows []replay.Row
	for _, text := range h.texts(t, `select id || ' ' || convert_from(record, 'UTF8') from audit.entries order by recorded_at, id`) {
		id, record, _ := strings.Cut(text, " ")
		rows = append(rows, replay.Row{ID: uuid.MustParse(id), RecordedAt: time.Unix(0, 0), Record: []byte(record)})
	}
	read := false
	report, err := replay.Run(ctx, replay.Config{
		Workers: 1,
		Pages: func(context.Context) ([]replay.Row, error) {
			if read {
				return nil, nil
			}
			read = true
			return rows, nil
		},
		Laws: func(ctx context.Context, revision string) (*policy.Engine, error) {
			if engine, ok := compiled.Load(revision); ok {
				return engine.(*policy.Engine), nil
			}
			archive := h.texts(t, "select encode(content, 'hex') from control.bundles where revision = $1", revision)
			if len(archive) != 1 {
				return nil, replay.ErrNotKept
			}
			var raw []byte
			if _, err := fmt.Sscanf(archive[0], "%x", &raw); err != nil {
				return nil, err
			}
			b, err := policy.Open(raw)
			if err != nil {
				return nil, err
			}
			engine := policy.New(policy.EngineConfig{Budget: time.Minute})
			if err := engine.Use(ctx, b); err != nil {
				return nil, err
			}
			compiled.Store(revision, engine) // not before it has its law: other houses take it from here
			return engine, nil
		},
	})
	ok(t, err)
	return report
}

// comesOutTheSame fails the test unless every decision of its book is the same when it is judged again.
func (h *house) comesOutTheSame(t testing.TB) {
	t.Helper()
	report := h.again(t)
	for _, c := range report.Changed {
		raw, _ := json.Marshal(c)
		t.Errorf("judged again by its own law a decision comes out otherwise: %s", raw)
	}
}

// afterwards is a judge that does something after it has judged so many acts.
type afterwards struct {
	*policy.Engine
	acts  int
	then  func()
	count int
}

func (a *afterwards) DecideAct(ctx context.Context, act *policy.Act) policy.Decision {
	d := a.Engine.DecideAct(ctx, act)
	if a.count++; a.count == a.acts {
		a.then()
	}
	return d
}

// What the law says of an act under the locks is recorded on the facts of the act, which are not those
// of the apply that it would become. The control judges the same record on the apply's.
func TestARefusedActIsRecordedOnTheFactsItWasJudgedOn(t *testing.T) {
	t.Parallel()
	judge := &afterwards{Engine: must(oneApproval())(t).engine, acts: 1}
	h := approving(t, oneApproval, func(s *setup) {
		s.control = func(c *control.Config) { c.PollEvery = time.Hour }
		s.gateway = func(c *Config) { c.Judge = judge }
	})
	judge.then = func() {
		ok(t, h.db.Exec(t.Context(), `with v as (update control.authority set version = version + 1 returning version)
			insert into control.identity_revocations (issuer, subject, reason, authority_version, entry_id)
			select $1, 'olga', 'left', version, gen_random_uuid() from v`, issuer))
	}
	_, _, err := h.submit(t, "olga", labelled("one"))
	got := actRefused(t, err, "BW-ACT-001")
	if judge.count < judge.acts+1 {
		t.Fatalf("%d judgements of the act: it was not refused under the locks", judge.count)
	}
	row := must(audit.NewReader(h.store.Pool()).Get(t.Context(), got.entry))(t)
	e := must(audit.ParseEntry(row.Record))(t)
	facts := must(policy.ReadRecorded(e.Facts))(t)
	if facts.Act == nil || !facts.Act.Caller.Revoked || e.Method != ActChangesSubmit || e.Class != "act" {
		t.Fatalf("%s", row.Record)
	}
	if d := judge.DecideRecorded(t.Context(), facts); d.Allow || d.Codes()[0] != "BW-ACT-001" {
		t.Errorf("judged again: %v", d.Codes())
	}
	other := must(json.Marshal(policy.Facts{Version: 1, Phase: "final", Caller: facts.Act.Caller, Now: facts.Act.Now}))(t)
	if d := judge.DecideRecorded(t.Context(), must(policy.ReadRecorded(other))(t)); d.Codes()[0] == "BW-ACT-001" {
		t.Error("the control: a call's facts give the act's refusal")
	}
}
