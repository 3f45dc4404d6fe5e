package main

import (
	"crypto/ed25519"
	"fmt"
	"maps"
	"slices"
	"time"
)

func benchPublicKey() ed25519.PublicKey {
	return benchKey.key.Public().(ed25519.PublicKey) //nolint:forcetypeassert // ed25519 says so
}

// report is the text of the tables.
func (h *fullHouse) report(machine string, small, large *fullStage) string {
	rate := func(n int64, d time.Duration) string { return fmt.Sprintf("%.0f/s", float64(n)/d.Seconds()) }
	t := &table{head: []string{"", "small", "full", "full to small"}}
	pair := func(what string, a, b time.Duration) {
		t.add(what, millis(a), millis(b), ratio(float64(b), float64(a)))
	}
	rates := func(what string, n, m int64, a, b time.Duration) {
		t.add(what, rate(n, a), rate(m, b), ratio(float64(m)/b.Seconds(), float64(n)/a.Seconds()))
	}
	t.add("entries and outcomes", fmt.Sprint(small.rows), fmt.Sprint(large.rows), ratio(float64(large.rows), float64(small.rows)))
	rates(fmt.Sprintf("entries written by %d callers at once", fullCallers), fullInserts, fullInserts, small.inserting, large.inserting)
	pair("an entry written, p50", small.insert.p50(), large.insert.p50())
	pair("an entry written, p99", small.insert.p99(), large.insert.p99())
	t.add(fmt.Sprintf("rows sequenced, %d waiting", fullWaiting), fmt.Sprintf("%.0f/s", small.sequenced), fmt.Sprintf("%.0f/s", large.sequenced), ratio(large.sequenced, small.sequenced))
	pair("a proof, p50", small.proofs.p50(), large.proofs.p50())
	pair("a proof, p99", small.proofs.p99(), large.proofs.p99())
	rates("rows verified", small.rows, large.rows, small.verifying.took, large.verifying.took)
	rates("rows exported", small.rows, large.rows, small.exporting.took, large.exporting.took)
	mib := func(n int64) string { return fmt.Sprintf("%.0f MiB", float64(n)/(1<<20)) }
	t.add("memory of verifying, at most", mib(small.verifying.memory), mib(large.verifying.memory), ratio(float64(large.verifying.memory), float64(small.verifying.memory)))
	t.add("memory of exporting, at most", mib(small.exporting.memory), mib(large.exporting.memory), ratio(float64(large.exporting.memory), float64(small.exporting.memory)))

	pages := &table{head: []string{"a page of 50, by", "small p50", "small p99", "full p50", "full p99", "full, longest"}}
	for _, name := range slices.Sorted(maps.Keys(large.pages)) {
		a, b := small.pages[name], large.pages[name]
		pages.add(name, millis(a.p50()), millis(a.p99()), millis(b.p50()), millis(b.p99()), millis(b.quantile(1)))
	}
	sizes := &table{head: []string{"table", "rows", "bytes per row on disk, indexes and all", "bytes of record, mean"}}
	for _, s := range large.sizes {
		if s.Rows < 1000 {
			continue
		}
		sizes.add(s.Table, fmt.Sprint(s.Rows), fmt.Sprintf("%.0f", float64(s.Disk)/float64(s.Rows)), fmt.Sprintf("%.0f", s.MeanRecord))
	}
	for _, sum := range []struct {
		what, per string
		tables    []string
	}{
		{"an entry, with its terms", "entries", []string{"entries", "terms"}},
		{"a leaf of the tree, with the tiles above it", "leaves", []string{"leaves", "tiles"}},
	} {
		var rows, disk int64
		for _, s := range large.sizes {
			if s.Table == sum.per {
				rows = s.Rows
			}
			if slices.Contains(sum.tables, s.Table) {
				disk += s.Disk
			}
		}
		sizes.add(sum.what, fmt.Sprint(rows), fmt.Sprintf("%.0f", float64(disk)/float64(max(rows, 1))), "–")
	}
	var a aims
	worst, slowest := time.Duration(0), ""
	for name, took := range large.pages {
		if p := took.p99(); p > worst {
			worst, slowest = p, name
		}
	}
	a.add(worst <= 20*time.Millisecond, "any filtered page p99 ≤ 20 ms: %s (%s)", millis(worst), slowest)
	written := float64(small.inserting) / float64(large.inserting)
	a.add(written >= 0.9, "entries written per second when full ≥ 90 %% of when nearly empty: %.0f %%", 100*written)
	perSecond := func(n int64, d time.Duration) float64 { return float64(n) / d.Seconds() }
	a.add(perSecond(large.rows, large.verifying.took) >= 100_000, "verify ≥ 100 000 rows/s: %.0f", perSecond(large.rows, large.verifying.took))
	a.add(large.sequenced >= 20_000, "sequencer ≥ 20 000 rows/s: %.0f", large.sequenced)
	a.add(large.proofs.p99() <= 10*time.Millisecond, "a proof in ≤ 10 ms (p99): %s", millis(large.proofs.p99()))
	a.add(perSecond(large.rows, large.exporting.took) >= 100_000, "export ≥ 100 000 rows/s: %.0f", perSecond(large.rows, large.exporting.took))
	return machine + "\n" + t.String() + "\n" + pages.String() + "\n" + sizes.String() + a.String()
}
