package facts

import (
	"bytes"
	"strings"

	"go.yaml.in/yaml/v4"
)

// unknownKeyLine finds the line of the first key machinery did not know. Its error
// text lists them as YAML; the same path is looked up in the text itself, in the
// document that begins at line. It is 0 when they cannot be matched.
func unknownKeyLine(text []byte, message string, line int) (found int) {
	defer func() {
		if recover() != nil {
			found = 0
		}
	}()
	_, listing, _ := strings.Cut(message, "unknown keys found during decoding:\n")
	var unknown yaml.Node
	if yaml.Unmarshal([]byte(listing), &unknown) != nil || len(unknown.Content) == 0 {
		return 0
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for range maxDocuments {
		var document yaml.Node
		if decoder.Decode(&document) != nil {
			return 0
		}
		for _, root := range document.Content {
			if root.Line == line {
				return firstUnknown(unknown.Content[0], root)
			}
		}
	}
	return 0
}

// firstUnknown follows the listing into the document as far as both go.
func firstUnknown(unknown, document *yaml.Node) int {
	if unknown.Kind != yaml.MappingNode || document.Kind != yaml.MappingNode || len(unknown.Content) < 2 {
		return 0
	}
	key, inner := unknown.Content[0], unknown.Content[1]
	for i := 0; i+1 < len(document.Content); i += 2 {
		if document.Content[i].Value != key.Value {
			continue
		}
		if line := firstUnknown(inner, document.Content[i+1]); line > 0 {
			return line
		}
		return document.Content[i].Line
	}
	return 0
}
