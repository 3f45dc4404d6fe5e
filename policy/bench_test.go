package policy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"
)

func lawOf(tb testing.TB, overlay map[string]string) *Engine {
	tb.Helper()
	b, err := Shipped()
	if err != nil {
		tb.Fatal(err)
	}
	if overlay != nil {
		if b, err = Overlay(b, files(overlay)); err != nil {
			tb.Fatal(err)
		}
	}
	e := New(EngineConfig{})
	if err := e.Use(context.Background(), b); err != nil {
		tb.Fatal(err)
	}
	return e
}

var noQuorum = map[string]string{"bronzeward/data.yaml": "quorum: {required: 0}\n"}

// worker15K are the facts of a 15 KiB worker configuration of which ten fields change.
func worker15K() *Facts {
	f := sampleApply()
	for _, kind := range []string{"LinkConfig", "LinkConfig", "ResolverConfig", "TimeSyncConfig", "UserVolumeConfig", "KmsgLogConfig"} {
		f.Config.Documents = append(f.Config.Documents, Document{APIVersion: "v1alpha1", Kind: kind, Name: fmt.Sprint(len(f.Config.Documents))})
	}
	for i := range 8 {
		f.Config.Changes = append(f.Config.Changes, ConfigChange{
			Document: "v1alpha1", Path: fmt.Sprintf("machine.nodeAnnotations.k%d", i), Field: "machine.nodeAnnotations", Before: "fp:1", After: "fp:2",
		})
	}
	f.Config.Changes = append(f.Config.Changes, ConfigChange{
		Document: "v1alpha1", Path: `machine.sysctls["vm.swappiness"]`, Field: "machine.sysctls", Before: "60", After: "10",
	})
	return f
}

func manyLabels(n int) *Facts {
	f := sampleApply()
	f.Config.Changes = nil
	for i := range n {
		f.Config.Changes = append(f.Config.Changes, ConfigChange{
			Document: "v1alpha1", Path: fmt.Sprintf(`machine.nodeLabels["example.com/label-%d"]`, i), Field: "machine.nodeLabels", After: fmt.Sprintf("fp:%d", i),
		})
	}
	f.Config.Collections = []Collection{{Document: "v1alpha1", Field: "machine.nodeLabels", Entries: n}}
	return f
}

func BenchmarkDecide(b *testing.B) {
	free, shipped := lawOf(b, noQuorum), lawOf(b, nil)
	approved := worker15K()
	approved.Change = sampleChange()
	early := sampleApply()
	early.Phase, early.Evidence, early.Config = "early", nil, nil
	for _, c := range []struct {
		name  string
		law   *Engine
		facts *Facts
	}{
		{"version", free, sampleCall("/machine.MachineService/Version", ClassRead)},
		{"apply-early", free, early},
		{"apply-one-label", free, sampleApply()},
		{"apply-15KiB", free, worker15K()},
		{"apply-approved", shipped, approved},
		{"apply-500-labels", free, manyLabels(500)},
		{"apply-9999-labels", free, manyLabels(9999)},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.law.Decide(context.Background(), c.facts)
			}
		})
	}
}

func BenchmarkFactsValue(b *testing.B) {
	f := worker15K()
	for b.Loop() {
		if _, err := factsValue(f); err != nil {
			b.Fatal(err)
		}
	}
}

// The facts that bench/opaenvoy judges, beside another evaluation of the same bundle.
func TestFactsOfTheBenchmarkAreCurrent(t *testing.T) {
	f := worker15K()
	f.Change = sampleChange()
	want, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	const path = "testdata/apply-15KiB.json"
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(path, append(want, '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(bytes.TrimSpace(got), want) {
		t.Errorf("%s is not what the benchmark here judges (%v); UPDATE_GOLDEN=1 writes it", path, err)
	}
}
