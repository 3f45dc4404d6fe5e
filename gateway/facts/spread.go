package facts

import (
	"encoding/base64"
	"net/url"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// sink takes values that are not shown.
type sink interface{ add(value string) }

// spread gives a value to note, and what can be read out of it: texts of several lines
// are quoted line by line, key=value texts by their value, and base64 by what is in it.
// Words of the fixed vocabulary give nothing away and are left. It goes no deeper where
// note is false for the value.
func spread(value string, note func(string) bool) {
	deeper := false
	for _, v := range []string{value, strings.TrimSpace(value)} {
		if v != "" && !vocabulary[v] && note(v) {
			deeper = true
		}
	}
	if !deeper {
		return
	}
	if strings.ContainsAny(value, "\n\r") {
		for line := range strings.FieldsFuncSeq(value, func(r rune) bool { return r == '\n' || r == '\r' }) {
			if line = strings.TrimSpace(line); len(line) >= longSecret && line != value {
				spread(line, note)
			}
		}
		return
	}
	if _, after, ok := strings.Cut(value, "="); ok && len(strings.Trim(after, "= ")) >= shortSecret {
		spread(strings.Trim(after, " \"'"), note)
	}
	if inner, err := base64.StdEncoding.DecodeString(value); err == nil && len(inner) >= longSecret && readable(string(inner)) {
		spread(string(inner), note)
		if _, password, ok := strings.Cut(string(inner), ":"); ok && len(password) >= shortSecret {
			spread(password, note)
		}
	}
}

// readable is true for a text of visible characters and line breaks.
func readable(text string) bool {
	return utf8.ValidString(text) && strings.IndexFunc(text, func(r rune) bool { return !visibleRune(r) && r != '\n' && r != '\r' && r != '\t' }) < 0
}

// addContent takes every text of free-form content, keys included where they are no names.
func addContent(to sink, content any) {
	switch content := content.(type) {
	case string:
		to.add(content)
	case []byte:
		to.add(string(content))
	case map[string]any:
		for key, value := range content {
			if looksSecret("", key) {
				to.add(key)
			}
			addContent(to, value)
		}
	case []any:
		for _, value := range content {
			addContent(to, value)
		}
	}
}

// addNode takes the texts of a written argument.
func addNode(to sink, written any) {
	node, ok := written.(*yaml.Node)
	if !ok || node == nil {
		return
	}
	if node.Kind == yaml.ScalarNode {
		to.add(node.Value)
	}
	for _, child := range node.Content {
		addNode(to, child)
	}
}

// addURL takes a URL whose origin alone is shown, and its secret parts.
func addURL(to sink, u *url.URL) {
	if u == nil {
		return
	}
	to.add(u.String())
	if u.User != nil {
		to.add(u.User.Username())
		if password, ok := u.User.Password(); ok {
			to.add(password)
		}
	}
	for _, values := range u.Query() {
		for _, value := range values {
			to.add(value)
		}
	}
	for segment := range strings.SplitSeq(u.Path, "/") {
		if looksSecret("", segment) {
			to.add(segment)
		}
	}
	to.add(u.Fragment)
}
