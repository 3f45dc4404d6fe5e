package facts

import (
	"bytes"
	"strings"

	"bronzeward/policy"
)

// estimate names the large block of a text that was not parsed, so that a policy can
// still say which field is too large. It counts lines by their indentation in the
// block style of the main document and gives up on anything else; a path that is not
// made of machinery's own field names is not named.
func estimate(text []byte) []policy.Collection {
	type level struct {
		indent  int
		key     []byte // of its last line
		entries int
	}
	var stack []level
	best, bestPath := 0, ""
	close := func(indent int) {
		for len(stack) > 0 && stack[len(stack)-1].indent > indent {
			if top := stack[len(stack)-1]; top.entries > best {
				if path, ok := pathOf(stack[:len(stack)-1], func(l level) string { return string(l.key) }); ok {
					best, bestPath = top.entries, path
				}
			}
			stack = stack[:len(stack)-1]
		}
	}
	for len(text) > 0 {
		line, rest, _ := bytes.Cut(text, []byte{'\n'})
		text = rest
		body := bytes.TrimLeft(line, " ")
		if len(body) == 0 || body[0] == '#' {
			continue
		}
		if bytes.HasPrefix(line, []byte("---")) {
			break
		}
		indent := len(line) - len(body)
		key, _, _ := bytes.Cut(body, []byte{':'})
		close(indent)
		if len(stack) == 0 || stack[len(stack)-1].indent < indent {
			if len(stack) == maxNesting {
				return []policy.Collection{}
			}
			stack = append(stack, level{indent: indent})
		}
		top := &stack[len(stack)-1]
		top.entries++
		top.key = key
	}
	close(-1)
	if best <= MaxEntries {
		return []policy.Collection{}
	}
	return []policy.Collection{{Document: "v1alpha1", Field: bestPath, Entries: best}}
}

// pathOf joins keys to a path when every one of them is a word of the vocabulary.
func pathOf[T any](levels []T, key func(T) string) (string, bool) {
	parts := make([]string, 0, len(levels))
	for _, l := range levels {
		if !vocabulary[key(l)] {
			return "", false
		}
		parts = append(parts, key(l))
	}
	return strings.Join(parts, "."), len(parts) > 0
}
