package facts

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"bronzeward/fixtures/oracle"
)

// The search says what looking for each needle alone says.
func TestNeedlesAreFoundLikeOneByOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.SliceOfN(rapid.StringMatching(`[ab]{8,14}`), 0, 12).Draw(t, "needles")
		text := rapid.StringMatching(`[ab]{0,40}`).Draw(t, "text")
		want := slices.ContainsFunc(texts, func(needle string) bool { return strings.Contains(text, needle) })
		if got := newNeedles(8, texts).in(text); got != want {
			t.Fatalf("found %t, one by one %t", got, want)
		}
	})
	if (*needles)(nil).in("aaaaaaaaaa") || newNeedles(8, []string{"short"}).in("a short text") {
		t.Error("something is found where nothing is looked for")
	}
	long := strings.Repeat("x", 10*maxNeedle)
	if !newNeedles(8, []string{long}).in("a " + long[:maxNeedle] + " b") {
		t.Error("the beginning of a long needle is not found")
	}
}

// It replaces what the standard library's replacer does, which a long needle's beginning
// alone does not stop.
func TestNeedlesAreReplacedTheLongestFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.SliceOfN(rapid.StringMatching(`[ab]{3,9}`), 1, 12).Draw(t, "needles")
		text := rapid.StringMatching(`[abc]{0,60}`).Draw(t, "text")
		slices.SortFunc(texts, func(a, b string) int { return len(b) - len(a) })
		var pairs []string
		for _, needle := range texts {
			pairs = append(pairs, needle, "#")
		}
		want := strings.NewReplacer(pairs...).Replace(text)
		if got := newNeedles(3, texts).replace(text, "#"); got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	})
	long := strings.Repeat("x", 10*maxNeedle)
	if got := newNeedles(3, []string{long, "xxxx"}).replace("a "+long[:3*maxNeedle]+" b", "#"); got != "a # b" {
		t.Errorf("of a long needle this is left: %q", got)
	}
	if got := newNeedles(3, []string{long + "y", long + "z"}).replace(long[1:], "#"); got != "#" {
		t.Errorf("of two long needles this is left: %q", got)
	}
}

// The work for one text must not be needles times text: 4 000 secrets of a length that
// shares its beginning are the worst.
func BenchmarkLeft(b *testing.B) {
	for name, secret := range map[string]func(int) string{
		"random": func(i int) string { h := sha256.Sum256(fmt.Append(nil, i)); return hex.EncodeToString(h[:16]) },
		"nested": func(i int) string { return strings.Repeat("A", i/2+8) + "x" },
		"alike":  func(i int) string { return strings.Repeat("A", 64) + fmt.Sprintf("%06d", i) },
	} {
		s := &secrets{}
		for i := range 4000 {
			s.add(secret(i))
		}
		if err := s.finish(); err != nil {
			b.Fatal(err)
		}
		for of, text := range map[string]string{"words": strings.Repeat("the node says this. ", maxWords/20), "alike": strings.Repeat("A", maxWords)} {
			b.Run(name+" secrets, "+of, func(b *testing.B) {
				b.SetBytes(int64(len(text)))
				for b.Loop() {
					if out := s.scrub(text); s.left(out) {
						b.Fatalf("found in %.200q", out)
					}
				}
			})
		}
	}
}

func TestMoreWordsThanAreLookedThroughAreNotShown(t *testing.T) {
	r := NewRedactor(testKeys(t), with("    env:\n        A: s3cret-canary\n"), oracle.Base())
	if got := r.Text(strings.Repeat("x", maxWords)); got != strings.Repeat("x", maxWords) {
		t.Errorf("64 KiB are not shown: %.80q", got)
	}
	if got := r.Text(strings.Repeat("x", maxWords+1)); got != hiddenText {
		t.Errorf("more is shown: %.80q", got)
	}
	// What follows the words, a diff, does not count: it is made here.
	if got := r.Text("error\n" + dryRunHead + strings.Repeat("+x\n", maxWords)); got == hiddenText {
		t.Error("a long diff hides the words before it")
	}
}
