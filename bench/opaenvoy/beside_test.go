// Package opaenvoy holds Bronzeward's engine beside opa-envoy-plugin's evaluation: the same
// bundle, the same facts, in turns within one run. It judges nothing by the clock.
package opaenvoy

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"bronzeward/policy"
)

const (
	rounds = 40
	calls  = 100 // of each in a round
)

// lay writes the shipped law, with so many rules more, into a directory.
func lay(tb testing.TB, extra map[string]string) string {
	tb.Helper()
	b, err := policy.Shipped()
	must(tb, err)
	dir := tb.TempDir()
	for _, f := range b.Files() {
		write(tb, filepath.Join(dir, f.Path), f.Body)
	}
	for path, text := range extra {
		write(tb, filepath.Join(dir, path), []byte(text))
	}
	return dir
}

func write(tb testing.TB, path string, body []byte) {
	tb.Helper()
	must(tb, os.MkdirAll(filepath.Dir(path), 0o700))
	must(tb, os.WriteFile(path, body, 0o600))
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// rules are n more rules of a site, in areas of a hundred. None of them fires.
func rules(n int, body string) map[string]string {
	out := map[string]string{}
	for area := 0; area*100 < n; area++ {
		text := fmt.Sprintf("# METADATA\n# title: site %[1]d\npackage bronzeward.rules.site%[1]d\n\nimport data.bronzeward.lib.finding\n", area)
		for i := area * 100; i < min(n, area*100+100); i++ {
			text += fmt.Sprintf(`
# METADATA
# title: rule %[1]d
# custom:
#   code: BW-SITE%[2]d-%03[3]d
#   hint: ""
deny contains finding.because(rego.metadata.rule(), "rule %[1]d") if {
	%[4]s
}
`, i, area, i%100, fmt.Sprintf(body, i))
		}
		out[fmt.Sprintf("bronzeward/rules/site%[1]d/site%[1]d.rego", area)] = text
	}
	return out
}

// laws are the shipped law, and the same with rules of two sorts: those that ask an equality of the
// input first, which OPA's index skips, and those that every apply has to look at.
func laws() map[string]map[string]string {
	out := map[string]map[string]string{"shipped": nil}
	for _, n := range []int{10, 100, 1000} {
		out[fmt.Sprintf("indexed-%04d", n)] = rules(n, `input.machine.labels.site == "s%d"`)
		out[fmt.Sprintf("looked-at-%04d", n)] = rules(n, `input.call.class == "apply"
	input.call.size > 100000000 + %d`)
	}
	return out
}

func BenchmarkBeside(b *testing.B) {
	raw, err := os.ReadFile("../../policy/testdata/apply-15KiB.json")
	must(b, err)
	facts, err := policy.ReadRecorded(raw)
	must(b, err)
	input, err := asMap(raw)
	must(b, err)
	all := laws()
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		b.Run(name, func(b *testing.B) { beside(b, lay(b, all[name]), facts.Call, input) })
	}
}

func beside(b *testing.B, dir string, facts *policy.Facts, input any) {
	ctx := context.Background()
	law, err := policy.Load(os.DirFS(dir))
	must(b, err)
	engine := policy.New(policy.EngineConfig{})
	must(b, engine.Use(ctx, law))
	other, err := newPlugin(dir, policy.AdmissionQuery)
	must(b, err)
	decision, err := other.decide(ctx, input)
	must(b, err)
	if ours, theirs := engine.Decide(ctx, facts).Allow, decision.(map[string]any)["allow"]; ours != true || theirs != true {
		b.Fatalf("both have to allow it: %v, %v", ours, theirs)
	}
	for b.Loop() {
		var ours, theirs []time.Duration
		for round := range rounds {
			mine := func() {
				for range calls {
					began := time.Now()
					engine.Decide(ctx, facts)
					ours = append(ours, time.Since(began))
				}
			}
			yours := func() {
				for range calls {
					began := time.Now()
					_, err := other.decide(ctx, input)
					theirs = append(theirs, time.Since(began))
					must(b, err)
				}
			}
			if round%2 == 0 {
				mine()
				yours()
			} else {
				yours()
				mine()
			}
			if round == 0 { // warms up
				ours, theirs = nil, nil
			}
		}
		for _, r := range []struct {
			name string
			took []time.Duration
		}{{"bronzeward", ours}, {"plugin", theirs}} {
			slices.Sort(r.took)
			b.ReportMetric(r.took[len(r.took)/2].Seconds()*1000, r.name+"-p50-ms")
			b.ReportMetric(r.took[len(r.took)*99/100].Seconds()*1000, r.name+"-p99-ms")
		}
		b.ReportMetric(float64(ours[len(ours)/2])/float64(theirs[len(theirs)/2]), "ratio-p50")
	}
}
