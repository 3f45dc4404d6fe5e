package gateway

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"bronzeward/fixtures/oracle"
	"bronzeward/gateway/facts"
	"bronzeward/policy"
)

// oracleVerdicts says, for every configuration a real node was asked to apply, what the
// shipped law says: "allow", or the codes that refuse it. It is kept by hand.
//
//go:embed testdata/oracle.txt
var oracleVerdicts []byte

// noQuorum is the shipped law without the approvals, which are not what is asked here.
func noQuorum(t *testing.T) *policy.Engine {
	t.Helper()
	shipped, err := policy.Shipped()
	if err != nil {
		t.Fatal(err)
	}
	law, err := policy.Overlay(shipped, fstest.MapFS{"bronzeward/data.yaml": {Data: []byte("quorum: {required: 0}\n")}})
	if err != nil {
		t.Fatal(err)
	}
	// What a decision may cost is not asked here.
	engine := policy.New(policy.EngineConfig{Budget: time.Minute})
	if err := engine.Use(context.Background(), law); err != nil {
		t.Fatal(err)
	}
	return engine
}

// verdictOn judges a configuration as a no-reboot apply of an operator to a good worker.
func verdictOn(t *testing.T, engine *policy.Engine, asked, active []byte) policy.Decision {
	t.Helper()
	digester, err := facts.NewPlain(nil)
	if err != nil {
		t.Fatal(err)
	}
	return engine.Decide(context.Background(), &policy.Facts{
		Version: policy.FactsVersion, Phase: "final",
		Call: policy.Call{
			Method: "/machine.MachineService/ApplyConfiguration", Class: policy.ClassApply,
			Mode: "no-reboot", ModeGiven: true, Targets: 1, Size: len(asked),
		},
		Caller: policy.Caller{
			Issuer: "https://idp.example", Subject: "olga", Kind: "human", Groups: []string{"operators"},
			Proof: "certificate", ProofEnds: time.Now().Add(time.Hour),
		},
		Machine:  &policy.Machine{Name: "worker-1", Cluster: "lab", Role: "worker", Pinned: true, Labels: map[string]string{}},
		Evidence: &policy.Evidence{Version: "v1.13.6", Minor: "1.13", Stage: "running", Type: "worker", IdentityMatches: true},
		Config:   facts.ReadConfig(context.Background(), asked, active, active, digester),
		Holds:    []policy.Hold{}, Now: time.Now(),
	})
}

// denialCodes are the codes that refuse, or "allow".
func denialCodes(d policy.Decision) string {
	if d.Allow {
		return "allow"
	}
	var codes []string
	for _, r := range d.Denials() {
		if !slices.Contains(codes, r.Code) {
			codes = append(codes, r.Code)
		}
	}
	return strings.Join(codes, " ")
}

func TestEveryRecordedConfigurationGetsItsVerdict(t *testing.T) {
	want := map[string]string{}
	lines := bufio.NewScanner(bytes.NewReader(oracleVerdicts))
	for lines.Scan() {
		name, verdict, ok := strings.Cut(lines.Text(), " ")
		if ok && name != "#" {
			want[name] = strings.TrimSpace(verdict)
		}
	}
	engine := noQuorum(t)
	for _, c := range oracle.Cases() {
		t.Run(c.Name, func(t *testing.T) {
			got := denialCodes(verdictOn(t, engine, c.Text, oracle.Base()))
			if got != want[c.Name] {
				t.Errorf("the law says %q, want %q", got, want[c.Name])
			}
			if c.Real.Code != "OK" && got == "allow" {
				t.Errorf("the node refused it (%s) and the law lets it through", c.Real.Code)
			}
		})
		delete(want, c.Name)
	}
	for name := range want {
		t.Errorf("%s has a verdict and is no recorded case", name)
	}
}

// What harmed a real node without a word of warning, and what else must never go through.
func TestWhatANodeWouldTakeAndMustNotGetIsRefusedByName(t *testing.T) {
	base := string(oracle.Base())
	machine := func(text string) string { return strings.Replace(base, "\nmachine:\n", "\nmachine:\n"+text, 1) }
	document := func(text string) string { return strings.TrimRight(base, "\n") + "\n---\n" + text }
	many := func(field string, n int) string {
		var b strings.Builder
		fmt.Fprintf(&b, "    %s:\n", field)
		for i := range n {
			fmt.Fprintf(&b, "        example.com/key-%05d: \"%d\"\n", i, i)
		}
		return machine(b.String())
	}
	engine := noQuorum(t)
	for name, row := range map[string]struct{ text, code string }{
		"lock-out by a network rule": {document("apiVersion: v1alpha1\nkind: NetworkRuleConfig\nname: apid\nportSelector:\n  ports: [50000]\n  protocol: tcp\ningress:\n  - subnet: 192.0.2.0/24\n"), "BW-CONFIG-013"},
		"crash by size":              {many("nodeAnnotations", 20000), "BW-CONFIG-"},
		"more labels than the cap":   {many("nodeLabels", 4000), "BW-CONFIG-"},
		"role checks off":            {strings.Replace(base, "    features:\n", "    features:\n        rbac: false\n", 1), "BW-CONFIG-"},
		"another accepted CA":        {machine("    acceptedCAs:\n        - crt: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t\n"), "BW-CONFIG-"},
		"a sysctl that panics":       {machine("    sysctls:\n        kernel.panic: \"1\"\n"), "BW-CONFIG-"},
		"static pods":                {machine("    pods:\n        - apiVersion: v1\n          kind: Pod\n          metadata: {name: x}\n"), "BW-CONFIG-"},
	} {
		t.Run(name, func(t *testing.T) {
			if row.text == base {
				t.Fatal("the case changes nothing")
			}
			got := denialCodes(verdictOn(t, engine, []byte(row.text), oracle.Base()))
			if !strings.Contains(got, row.code) {
				t.Errorf("the law says %q, want a denial of %s", got, row.code)
			}
		})
	}
	t.Run("control: the base itself is allowed", func(t *testing.T) {
		if got := denialCodes(verdictOn(t, engine, oracle.Base(), oracle.Base())); got != "allow" {
			t.Errorf("got %q", got)
		}
	})
}
