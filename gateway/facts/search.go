package facts

import (
	"slices"
	"sort"
	"strings"
)

// maxNeedle is how many bytes a needle is looked for by: a longer one is found by its beginning.
const maxNeedle = 256

// needles are texts to look for in another, all at once: the time is that of the text,
// whatever their number and however alike they are. It is immutable.
type needles struct {
	// window is how many bytes every needle has at least; first holds what they begin with.
	window int
	first  map[string]struct{}
	// heads are the needles cut to maxNeedle and without those that another one begins. Of
	// all heads only the greatest that is not above a text can begin it.
	heads []string
	// whole are the needles, sorted; above is for each the longest other one that it begins
	// with, -1 if there is none.
	whole []string
	above []int
}

// newNeedles takes texts of at least window bytes; shorter ones are not looked for.
func newNeedles(window int, texts []string) *needles {
	texts = slices.DeleteFunc(slices.Clone(texts), func(text string) bool { return len(text) < window })
	slices.Sort(texts)
	out := &needles{window: window, first: make(map[string]struct{}, len(texts)), whole: slices.Compact(texts)}
	out.above = make([]int, len(out.whole))
	var open []int // the needles that the current one begins with, the longest last
	for i, text := range out.whole {
		for len(open) > 0 && !strings.HasPrefix(text, out.whole[open[len(open)-1]]) {
			open = open[:len(open)-1]
		}
		out.above[i] = -1
		if len(open) > 0 {
			out.above[i] = open[len(open)-1]
		}
		open = append(open, i)

		head := text[:min(len(text), maxNeedle)]
		if n := len(out.heads); n == 0 || !strings.HasPrefix(head, out.heads[n-1]) {
			out.heads = append(out.heads, head)
			out.first[head[:window]] = struct{}{}
		}
	}
	return out
}

// next is the first place at or behind from where a needle or the head of one stands, -1
// if there is none.
func (n *needles) next(text string, from int) int {
	if n == nil || len(n.heads) == 0 {
		return -1
	}
	for i := from; i+n.window <= len(text); i++ {
		if _, ok := n.first[text[i:i+n.window]]; !ok {
			continue
		}
		rest := text[i:min(len(text), i+maxNeedle)]
		behind := sort.Search(len(n.heads), func(j int) bool { return n.heads[j] > rest })
		if behind > 0 && strings.HasPrefix(rest, n.heads[behind-1]) {
			return i
		}
	}
	return -1
}

// in is true when one of the needles, or the head of a long one, is in the text.
func (n *needles) in(text string) bool { return n.next(text, 0) >= 0 }

// length is how much of a text that a needle or the head of one begins belongs to needles:
// the longest that is there whole, or as much of a long one as there is.
func (n *needles) length(text string) int {
	behind := sort.Search(len(n.whole), func(j int) bool { return n.whole[j] > text })
	out := 1
	for _, i := range []int{behind - 1, behind} {
		if i < 0 || i == len(n.whole) {
			continue
		}
		common := alike(n.whole[i], text)
		if common >= maxNeedle {
			out = max(out, common)
		}
		for ; i >= 0; i = n.above[i] {
			if size := len(n.whole[i]); size <= common {
				out = max(out, size)
				break
			}
		}
	}
	return out
}

// replace writes mark for every needle in the text, the longest where several begin.
func (n *needles) replace(text, mark string) string {
	at := n.next(text, 0)
	if at < 0 {
		return text
	}
	var out strings.Builder
	done := 0
	for ; at >= 0; at = n.next(text, done) {
		out.WriteString(text[done:at])
		out.WriteString(mark)
		done = at + n.length(text[at:])
	}
	out.WriteString(text[done:])
	return out.String()
}

// alike is how many bytes two texts begin with in common.
func alike(a, b string) int {
	size := min(len(a), len(b))
	for i := range size {
		if a[i] != b[i] {
			return i
		}
	}
	return size
}
