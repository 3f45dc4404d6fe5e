package facts

import (
	"bytes"
	"context"
	"fmt"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"bronzeward/policy"
)

// What machinery's parser is given at most. It reads about 10 MB/s of dense YAML and
// cannot be stopped, so its work is bounded before it starts. All limits are far above
// any configuration a worker needs, and a node may accept what they refuse.
const (
	maxText      = MaxMessage // bytes
	maxDocuments = 256        // `---` markers
	maxWeight    = 40_000     // lines, plus a quarter of the flow separators: about 0.2 s of parsing
	maxNodes     = 200_000    // YAML nodes after aliases are expanded
	maxNesting   = 64         // levels of YAML
	maxSquares   = 25_000_000 // the squares of all mappings' sizes, summed: the decoder compares every key with every other
	looseWeight  = 1_200      // weight up to which no mapping can be that large
)

var bom = []byte("\uFEFF")

// scan looks at the bytes of a configuration before anything parses them.
func scan(ctx context.Context, text []byte) []policy.Problem {
	switch {
	case len(text) > maxText:
		return problem("too-large", 0, "the configuration has %d bytes; at most %d are read", len(text), maxText)
	case bytes.IndexByte(text, 0) >= 0:
		return problem("unsafe", lineAt(text, bytes.IndexByte(text, 0)), "the configuration holds a NUL byte")
	case !utf8.Valid(text):
		return problem("unsafe", lineAt(text, invalidAt(text)), "the configuration is not valid UTF-8")
	}
	if line := directive(text); line > 0 {
		return problem("unsafe", line, "the configuration holds a YAML directive")
	}
	if n := markers(text); n > maxDocuments {
		return problem("too-large", 0, "the configuration has %d document markers; at most %d are read", n, maxDocuments)
	}
	heavy := weight(text)
	if heavy > maxWeight {
		return problem("too-large", 0, "the configuration weighs %d lines and list entries; at most %d are read", heavy, maxWeight)
	}
	if heavy > looseWeight || suspicious(text) {
		return scanNodes(ctx, text)
	}
	return nil
}

func problem(kind string, line int, format string, args ...any) []policy.Problem {
	return []policy.Problem{{Kind: kind, Line: line, Message: fmt.Sprintf(format, args...)}}
}

// lineAt is the 1-based line of a byte offset.
func lineAt(text []byte, offset int) int {
	return 1 + bytes.Count(text[:min(max(offset, 0), len(text))], []byte{'\n'})
}

func invalidAt(text []byte) int {
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return 0
}

// directive is the line of the first `%` in the first column, 0 if there is none.
func directive(text []byte) int {
	start := 0
	if bytes.HasPrefix(text, bom) {
		start = len(bom)
	}
	if bytes.HasPrefix(text[start:], []byte("%")) {
		return 1
	}
	for _, marker := range []string{"\n%", "\r%"} {
		if at := bytes.Index(text, []byte(marker)); at >= 0 {
			return lineAt(text, at+1)
		}
	}
	return 0
}

func markers(text []byte) int {
	n := bytes.Count(text, []byte("\n---")) + bytes.Count(text, []byte("\r---"))
	if bytes.HasPrefix(bytes.TrimPrefix(text, bom), []byte("---")) {
		n++
	}
	return n
}

// weight approximates the parser's work without parsing. A lone CR breaks lines too,
// and nested entries can share a line.
func weight(text []byte) int {
	count := func(s string) int { return bytes.Count(text, []byte(s)) }
	lines := count("\n") + count("\r") - count("\r\n")
	flow := count(",") + count("[") + count("{") + count("- -") + count("? ?")
	return lines + flow/4
}

// suspicious is true when the text may hold anchors, aliases or tags. Their marks
// never follow a letter or digit.
func suspicious(text []byte) bool {
	for i := 0; ; i++ {
		next := bytes.IndexAny(text[i:], "&*!")
		if next < 0 {
			return false
		}
		i += next
		if i == 0 || !alphanumeric(text[i-1]) {
			return true
		}
	}
}

func alphanumeric(b byte) bool {
	return b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
}

// scanNodes parses to nodes only, which expands nothing, and finds what decoding would
// expand. A text that does not parse has no problem here: machinery says so better.
func scanNodes(ctx context.Context, text []byte) (found []policy.Problem) {
	defer func() {
		if recover() != nil {
			found = problem("unsafe", 0, "the YAML parser stopped on the configuration")
		}
	}()

	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var total work
	for range maxDocuments + 1 {
		if ctx.Err() != nil {
			return problem("too-large", 0, "reading the configuration took longer than the call allows")
		}
		var document yaml.Node
		if decoder.Decode(&document) != nil {
			return nil // the end, or an error that machinery words
		}
		counter := nodeCounter{known: make(map[*yaml.Node]work)}
		total = total.plus(counter.count(&document, 0))
		switch {
		case counter.tag != nil:
			return problem("unsafe", counter.tag.Line, "the configuration holds a YAML tag of its own")
		case counter.cycle != nil:
			return problem("unsafe", counter.cycle.Line, "an alias of the configuration contains itself")
		case counter.deep != nil:
			return problem("unsafe", counter.deep.Line, "the configuration nests deeper than %d levels", maxNesting)
		case total.nodes > maxNodes:
			return problem("unsafe", 0, "the aliases of the configuration expand to more than %d nodes", maxNodes)
		case total.squares > maxSquares:
			return problem("too-large", counter.largest.Line, "a mapping of the configuration has %d entries", len(counter.largest.Content)/2)
		}
	}
	return problem("too-large", 0, "the configuration has more than %d documents", maxDocuments)
}

// work is what decoding a node costs. Both parts saturate just above their limit: the
// true cost of a bomb does not fit an integer.
type work struct {
	nodes, squares int
	open           bool // being counted: meeting it again is a cycle
}

func (l work) plus(other work) work {
	return work{
		nodes:   min(l.nodes+other.nodes, maxNodes+1),
		squares: min(l.squares+other.squares, maxSquares+1),
	}
}

// nodeCounter counts nodes as decoding would see them, visiting each anchor once.
type nodeCounter struct {
	known            map[*yaml.Node]work
	largest          *yaml.Node // mapping
	tag, cycle, deep *yaml.Node
}

func (c *nodeCounter) count(node *yaml.Node, depth int) work {
	if node == nil {
		return work{}
	}
	if depth > maxNesting {
		c.deep = node
		return work{}
	}
	if known, ok := c.known[node]; ok {
		if known.open {
			c.cycle = node
			return work{}
		}
		return known
	}
	if node.Style&yaml.TaggedStyle != 0 && !coreTag(node.Tag) {
		c.tag = node
	}

	own := work{nodes: 1}
	switch node.Kind {
	case yaml.ScalarNode:
		return own // has no parts, and is met once or through an alias node
	case yaml.MappingNode:
		entries := min(len(node.Content)/2, maxSquares)
		own.squares = min(entries*entries, maxSquares+1)
		if c.largest == nil || len(node.Content) > len(c.largest.Content) {
			c.largest = node
		}
	}
	c.known[node] = work{open: true}
	if node.Kind == yaml.AliasNode {
		own = own.plus(c.count(node.Alias, depth+1))
	}
	for _, child := range node.Content {
		own = own.plus(c.count(child, depth+1))
	}
	c.known[node] = own
	return own
}

func coreTag(tag string) bool {
	switch tag {
	case "", "!!str", "!!int", "!!float", "!!bool", "!!null", "!!map", "!!seq", "!!binary", "!!merge", "!!timestamp":
		return true
	default:
		return false
	}
}
