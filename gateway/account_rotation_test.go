package gateway

import (
	"errors"
	"testing"

	"bronzeward/fixtures/talosd"
	"bronzeward/gateway/control"

	"github.com/google/uuid"
)

// What a person says of an attempt is held against what the machine shows also after another digest key became the current
// one: the attempt's digests are of the older key.
func TestAccountingAfterAnotherDigestKey(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name     string
		holds    []byte // what the machine holds by then; null is what it held before
		landed   bool
		want     control.State
		mustFail error
		keys     []string
	}{
		{"not landed, and it shows", labelled("one"), false, control.StateUnresolved, control.ErrContradicted, []string{"k1", "k2"}},
		{"landed, and it shows", labelled("one"), true, control.StateCompleted, nil, []string{"k1", "k2"}},
		{"landed, and nothing moved", nil, true, control.StateFailed, nil, []string{"k1", "k2"}},
		{"landed, and something else is there", labelled("else"), true, control.StateAccounted, nil, []string{"k1", "k2"}},
		// Nobody can compare any more. The machine is not held for ever.
		{"the key is gone", labelled("one"), false, control.StateAccounted, nil, []string{"k2"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, hurried)
			ok(t, h.nodes["w1"].Fault(talosd.Fault{Kind: talosd.ResetRequest}))
			_ = h.as(t, "olga").apply(t, "w1", noReboot(t, labelled("one")))
			if got := h.attempts(t); len(got) != 1 || got[0] != "unresolved" {
				t.Fatalf("attempts are %v", got)
			}
			id := must(uuid.Parse(h.texts(t, "select id::text from control.attempts")[0]))(t)
			h.restart(t, func(c *Config) { c.Digester = ring(t, "k2", row.keys...) })
			if row.holds != nil {
				ok(t, h.nodes["w1"].SetConfig(row.holds))
			}
			ok(t, h.db.Exec(t.Context(), `update control.attempts set opened_at = opened_at - interval '1 hour', send_by = send_by - interval '1 hour',
				lease_until = lease_until - interval '1 hour', transport_deadline = transport_deadline - interval '1 hour'`))
			_, err := h.acts().Account(t.Context(), h.actor(t, "rhea"), id, row.landed, "looked at the console", nil)
			if !errors.Is(err, row.mustFail) {
				t.Errorf("accounting gives %v", err)
			}
			if got := must(h.store.GetAttempt(t.Context(), id))(t).State; got != row.want {
				t.Errorf("the attempt is %s, want %s", got, row.want)
			}
		})
	}
}
