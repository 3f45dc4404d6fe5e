package people

import (
	"bytes"
	"errors"
	"fmt"

	"go.yaml.in/yaml/v4"

	"bronzeward/cmd/bronzeward/ask"
)

// yamlFile is a file of a person's whose keys are set one by one, so that what this program
// knows nothing of stays: keys, their order and comments. Layout may change.
type yamlFile struct {
	root *yaml.Node // a mapping
	doc  *yaml.Node
	// before is what stood in a file without a value: comments.
	before []byte
}

// readYAMLFile reads one document that is a mapping, or nothing.
func readYAMLFile(raw []byte) (*yamlFile, error) {
	var doc yaml.Node
	if err := yaml.Load(raw, &doc); err != nil && !ask.CommentsOnly(raw) {
		return nil, ask.FileProblems(err)
	}
	if doc.Kind == 0 || len(doc.Content) == 0 || isNull(doc.Content[0]) {
		f := &yamlFile{root: mapping()}
		f.doc = &yaml.Node{Kind: yaml.DocumentNode, Content: []*yaml.Node{f.root}}
		if len(bytes.TrimSpace(raw)) > 0 && ask.CommentsOnly(raw) {
			f.before = append(bytes.TrimRight(raw, "\n"), '\n')
		}
		return f, nil
	}
	f := &yamlFile{root: doc.Content[0], doc: &doc}
	if f.root.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("line %d: it does not hold keys and values", f.root.Line)
	}
	return f, plain(f.root, 0)
}

// deepest is how deep a file may be nested.
const deepest = 100

// plain refuses what cannot be edited at one place: aliases, whose value stands elsewhere, and
// keys that come twice, of which readers take one or the other.
func plain(n *yaml.Node, depth int) error {
	if depth > deepest {
		return errors.New("it is nested too deep")
	}
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		return fmt.Errorf("line %d: it has an anchor or alias, and those are not rewritten here; write the value out", n.Line)
	}
	seen := map[string]bool{}
	for i, child := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			if child.Kind != yaml.ScalarNode || seen[child.Value] {
				return fmt.Errorf("line %d: a key comes twice, or is not a word", child.Line)
			}
			seen[child.Value] = true
		}
		if err := plain(child, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// bytes is the file as it is to be written. It is read once more, so that nothing is written
// that the next reader could not read.
func (f *yamlFile) bytes() ([]byte, error) {
	out, err := yaml.Dump(f.doc, yaml.V3, yaml.WithLineWidth(-1))
	if err != nil {
		return nil, fmt.Errorf("writing YAML: %w", err)
	}
	out = append(bytes.Clone(f.before), out...)
	if err := yaml.Load(out, &yaml.Node{}); err != nil {
		return nil, ask.FileProblems(err)
	}
	return out, nil
}

func mapping() *yaml.Node { return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"} }

// text is a string; it is quoted where it would be read as something else.
func text(value string) *yaml.Node {
	n := &yaml.Node{}
	n.SetString(value)
	return n
}

func texts(values []string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	for _, one := range values {
		n.Content = append(n.Content, text(one))
	}
	return n
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// get is the value of a key; null when the mapping has none.
func get(m *yaml.Node, key string) *yaml.Node {
	if m == nil || m.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Kind == yaml.ScalarNode && m.Content[i].Value == key {
			return m.Content[i+1]
		}
	}
	return nil
}

// getText is the value of a key when it is text, else empty.
func getText(m *yaml.Node, key string) string {
	if n := get(m, key); n != nil && n.Kind == yaml.ScalarNode && !isNull(n) {
		return n.Value
	}
	return ""
}

// set gives a key a value, at its place or at the end. Comments at the place stay.
func set(m *yaml.Node, key string, value *yaml.Node) {
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Kind == yaml.ScalarNode && m.Content[i].Value == key {
			was := m.Content[i+1]
			value.HeadComment, value.LineComment, value.FootComment = was.HeadComment, was.LineComment, was.FootComment
			m.Content[i+1] = value
			return
		}
	}
	if len(m.Content) == 0 {
		m.Style &^= yaml.FlowStyle // `{}` becomes lines
	}
	m.Content = append(m.Content, text(key), value)
}

// drop takes a key away and says whether there was one.
func drop(m *yaml.Node, key string) bool {
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Kind == yaml.ScalarNode && m.Content[i].Value == key {
			m.Content = append(m.Content[:i:i], m.Content[i+2:]...)
			return true
		}
	}
	return false
}
