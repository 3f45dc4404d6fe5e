package replay

import (
	"context"
	"syscall"
	"testing"
	"time"

	"bronzeward/audit"
	"bronzeward/policy"
)

// BenchmarkRun judges decisions again with one worker, from the record's bytes to the report. decisions/cpu-s is
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
		name string
		law  *policy.Engine
		e    audit.Entry
	}{
		{"read", shipped, decided(b, shipped, read())},
		{"apply-15KiB", open, decided(b, open, apply())},
		{"apply-approved", shipped, decided(b, shipped, approved)},
		{"apply-waiting", shipped, decided(b, shipped, apply())},
	} {
		b.Run(c.name, func(b *testing.B) {
			record := c.e.Record()
			left := b.N
			cfg := by(c.law)
			cfg.Workers = 1
			cfg.Pages = func(context.Context) ([]Row, error) {
				n := min(left, 500)
				left -= n
				rows := make([]Row, n)
				for i := range rows {
					rows[i] = Row{ID: c.e.ID, RecordedAt: now, Record: record}
				}
				return rows, nil
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
