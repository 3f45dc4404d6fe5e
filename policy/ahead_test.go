package policy

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// laws are small laws that differ.
func laws(t *testing.T, n int) (out []*Bundle) {
	t.Helper()
	for i := range n {
		b, err := Load(files(map[string]string{
			"a.rego": fmt.Sprintf("package bronzeward.admission\n\ndecision := {\"allow\": true, \"reasons\": [{\"code\": \"BW-A1-%03d\", \"message\": \"m\", \"rule\": \"r\", \"severity\": \"warn\", \"hint\": \"\"}], %s}", i, rest),
			"b.rego": "package bronzeward.api\n\ndefault decision := false\n",
		}))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, b)
	}
	return out
}

// A law that was prepared becomes the law without being compiled, and judges like one that was not; the law
// before it is gone back to in the same way. The control does not prepare it, and compiles.
func TestAPreparedLawBecomesTheLawWithoutBeingCompiled(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for _, prepared := range []bool{true, false} {
		b := laws(t, 2)
		e := New(EngineConfig{})
		if err := e.Use(ctx, b[0]); err != nil {
			t.Fatal(err)
		}
		if prepared {
			if err := e.Prepare(ctx, b[1]); err != nil {
				t.Fatal(err)
			}
		}
		if d := e.Decide(ctx, sampleApply()); e.Revision() != b[0].Revision() || d.Revision != b[0].Revision() {
			t.Fatalf("prepared %v: it judges by %.8s", prepared, d.Revision)
		}
		was := e.Compilations()
		if used := e.UsePrepared(b[1].Revision()); used != prepared {
			t.Fatalf("prepared %v: used %v", prepared, used)
		}
		if err := e.Use(ctx, b[1]); err != nil {
			t.Fatal(err)
		}
		want := int64(1)
		if prepared {
			want = 0
		}
		if got := e.Compilations() - was; got != want {
			t.Errorf("prepared %v: compiled %d times, want %d", prepared, got, want)
		}
		if d := e.Decide(ctx, sampleApply()); d.Revision != b[1].Revision() || !slices.Equal(d.Codes(), []string{"BW-A1-001"}) {
			t.Errorf("prepared %v: it judges %v by %.8s", prepared, d.Codes(), d.Revision)
		}
		was = e.Compilations()
		if err := e.Use(ctx, b[0]); err != nil || e.Compilations() != was || e.Revision() != b[0].Revision() {
			t.Errorf("prepared %v: going back: %v, compiled %d times", prepared, err, e.Compilations()-was)
		}
	}
}

// However many laws are prepared, four stay: the live one and the one before it, whatever comes, and the last two.
func TestFewLawsStayPrepared(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	b := laws(t, 6)
	e := New(EngineConfig{})
	stay := func(want ...int) {
		t.Helper()
		var revisions []string
		for _, i := range want {
			revisions = append(revisions, b[i].Revision())
		}
		if diff := cmp.Diff(revisions, e.Prepared()); diff != "" {
			t.Error(diff)
		}
	}
	for _, step := range []struct {
		law  int
		live bool
		stay []int
	}{
		{0, false, []int{0}},
		{0, true, []int{0}},
		{1, true, []int{1, 0}},
		{2, false, []int{1, 0, 2}},
		{3, false, []int{1, 0, 3, 2}},
		{4, false, []int{1, 0, 4, 3}},
		{4, false, []int{1, 0, 4, 3}}, // again
		{0, false, []int{1, 0, 4, 3}}, // the one before is prepared
		{3, true, []int{3, 1, 4}},
		{5, false, []int{3, 1, 5, 4}},
		{1, true, []int{1, 3, 5, 4}},
	} {
		do := e.Prepare
		if step.live {
			do = e.Use
		}
		if err := do(ctx, b[step.law]); err != nil {
			t.Fatal(err)
		}
		stay(step.stay...)
	}
	if e.UsePrepared(b[2].Revision()) || e.UsePrepared("") || e.Revision() != b[1].Revision() {
		t.Errorf("%.8s is the law", e.Revision())
	}
}

// What does not compile is not prepared, and the law stays.
func TestALawThatDoesNotCompileIsNotPrepared(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	bad, err := Load(files(map[string]string{"a.rego": "package a\n\nx := http.send({\"method\": \"get\", \"url\": \"http://127.0.0.1\"})\n"}))
	if err != nil {
		t.Fatal(err)
	}
	b := laws(t, 1)
	e := New(EngineConfig{})
	if err := e.Use(ctx, b[0]); err != nil {
		t.Fatal(err)
	}
	panics := &Bundle{revision: "0000"} // without what was parsed
	for _, one := range []*Bundle{bad, nil, panics} {
		if err := e.Prepare(ctx, one); err == nil {
			t.Error("it is prepared")
		}
		if err := e.Use(ctx, one); err == nil {
			t.Error("it is the law")
		}
	}
	if e.UsePrepared(bad.Revision()) || e.Revision() != b[0].Revision() || len(e.Prepared()) != 1 {
		t.Errorf("%.8s is the law, prepared are %d", e.Revision(), len(e.Prepared()))
	}
}
