package facts

import (
	"fmt"
	"strings"

	"bronzeward/policy"
)

// diffKind is what sort of diff a node's words end in.
type diffKind int

const (
	noDiff      diffKind = iota
	wholeDiff            // "Config diff:", of a dry run: both configurations
	refusedDiff          // "diff:", of a no-reboot refusal: the fields that need a reboot
	otherDiff            // anything else that looks like one
)

// cutDiff takes the words before the first mark of a diff. What follows is never
// shown, so where the diff ends does not matter.
func cutDiff(text string) (head string, kind diffKind) {
	head = beforeDiff(text)
	if head == text {
		return head, noDiff
	}
	if whole, _, ok := strings.Cut(text, "Config diff:"); ok {
		if len(whole) <= len(head) {
			head = whole
		}
		return head, wholeDiff
	}
	if strings.HasPrefix(text[len(head):], "diff:\n") {
		return head, refusedDiff
	}
	return head, otherDiff
}

// beforeDiff is the text up to the first mark of a diff.
func beforeDiff(text string) string {
	at := len(text)
	for _, mark := range []string{"Config diff:", "diff:", "--- ", "+++ ", "@@ "} {
		if i := strings.Index(text[:at], mark); i >= 0 {
			at = i
		}
	}
	return text[:at]
}

// writeChange writes one change as two lines of a diff.
func writeChange(out *strings.Builder, c policy.ConfigChange) {
	name := c.Path
	if c.Document != "v1alpha1" {
		name = c.Document + " " + c.Path
	}
	if c.Before != nil {
		fmt.Fprintf(out, "-%s: %s\n", name, oneLine(c.Before))
	}
	if c.After != nil {
		fmt.Fprintf(out, "+%s: %s\n", name, oneLine(c.After))
	}
}

func oneLine(value any) string {
	return visibleText(strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		return r
	}, fmt.Sprint(value)))
}
