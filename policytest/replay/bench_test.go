package replay

import (
	"context"
	"slices"
	"syscall"
	"testing"
	"time"

	"bronzeward/policy"
)

// BenchmarkRun judges decisions again with one worker, from the record's bytes to the report, beside the engine
// alone on facts that are read already. decisions/cpu-s is
// per second of processor time, the collector's included: what one core does, whatever else the computer is
// asked meanwhile.
func BenchmarkRun(b *testing.B) {
	shipped, open := law(b, "", ""), law(b, noQuorum, "")
	approved := apply()
	approved.Change = &policy.Change{
		ID: "chg_01jn1zq9m8e6r9h0t5w3x7y2k4", State: "approved", Kind: "apply", Requester: policy.Person{Issuer: "i", Subject: "vera"}, Spender: policy.Person{Issuer: "i", Subject: "vera"},
		Approvals: []policy.Approval{{Approver: policy.Person{Issuer: "i", Subject: "anna"}, Kind: "human", Groups: []string{"approvers"}, EpochCurrent: true}}, EpochCurrent: true,
	}
	for _, c := range []struct {
		name  string
		law   *policy.Engine
		facts *policy.Facts
		same  bool // all of one second
	}{
		{"read", shipped, read(), false},
		{"read-of-one-second", shipped, read(), true},
		{"apply-15KiB", open, apply(), false},
		{"apply-approved", shipped, approved, false},
		{"apply-waiting", shipped, apply(), false},
	} {
		b.Run(c.name+"/engine-alone", func(b *testing.B) {
			facts, err := policy.ReadRecorded(decided(b, c.law, c.facts).Facts)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			before := processorTime(b)
			for range b.N {
				c.law.DecideRecorded(context.Background(), facts)
			}
			b.ReportMetric(float64(b.N)/(processorTime(b)-before).Seconds(), "decisions/cpu-s")
		})
		b.Run(c.name+"/replay", func(b *testing.B) {
			rows := make([]Row, 500)
			for i := range rows {
				f := *c.facts
				if !c.same {
					f.Now = f.Now.Add(time.Duration(i) * time.Second)
				}
				e := decided(b, c.law, &f)
				rows[i] = Row{ID: e.ID, RecordedAt: now, Record: e.Record()}
			}
			left := b.N
			cfg := by(c.law)
			cfg.Workers = 1
			cfg.Pages = func(context.Context) ([]Row, error) {
				n := min(left, len(rows))
				left -= n
				return slices.Clone(rows[:n]), nil
			}
			b.ReportAllocs()
			b.ResetTimer()
			before := processorTime(b)
			r, err := Run(context.Background(), cfg)
			spent := processorTime(b) - before
			b.StopTimer()
			if err != nil || r.Same != int64(b.N) {
				b.Fatalf("%s, %v", r.String(), err)
			}
			b.ReportMetric(float64(b.N)/spent.Seconds(), "decisions/cpu-s")
		})
	}
}

// processorTime is what the process has used so far.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
