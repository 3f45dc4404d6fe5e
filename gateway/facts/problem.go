package facts

import (
	"bytes"
	"errors"
	"regexp"
	"strconv"
	"strings"

	"github.com/siderolabs/talos/pkg/machinery/config/configloader"

	"bronzeward/policy"
)

// The shapes of machinery's error texts. They quote the configuration, so only their
// kind, a line number within the text, and words of a fixed vocabulary are taken over.
var (
	documentLine  = regexp.MustCompile(`\(line (\d+)\)`)
	yamlLine      = regexp.MustCompile(`\bline (\d+)`)
	yamlOffset    = regexp.MustCompile(`^decode error: yaml: offset (\d+)`)
	alreadyAt     = regexp.MustCompile(`yaml: construct errors:\s+line (\d+): mapping key .* already defined at line \d+`)
	notRegistered = regexp.MustCompile(`: not registered$`)
)

// decodeProblem says why machinery's loader refused a text, without a value of it.
func decodeProblem(text []byte, err error) policy.Problem {
	message := err.Error()
	out := policy.Problem{Kind: "invalid", Line: lineIn(text, documentLine, message)}
	switch {
	case errors.Is(err, configloader.ErrNoConfig):
		out.Kind, out.Message = "missing", "the configuration holds no document"
	case strings.HasPrefix(message, "recovered: "):
		out.Kind, out.Message = "unsafe", "machinery's parser stopped on the configuration"
	case strings.HasPrefix(message, "decode error: "):
		out.Kind, out.Line, out.Message = "syntax", syntaxLine(text, message), "the configuration is not well-formed YAML"
	case strings.HasPrefix(message, "expected a YAML document") || strings.HasPrefix(message, "expected a document"):
		out.Kind, out.Line = "syntax", lineIn(text, yamlLine, message)
		out.Message = "a document of the configuration is not a mapping"
	case strings.HasPrefix(message, "duplicate "):
		out.Kind, out.Message = "duplicate", "the configuration holds a document twice"
	case strings.HasPrefix(message, "conflicting documents: "):
		out.Message = "two documents of the configuration exclude each other"
	case strings.Contains(message, "): unknown keys found during decoding:\n"):
		out.Kind, out.Message = "unknown-key", "a document of the configuration holds a key its kind does not have"
		if line := unknownKeyLine(text, message, out.Line); line > 0 {
			out.Line = line
		}
	case notRegistered.MatchString(message):
		out.Kind, out.Message = "unknown-document", "talos "+SupportedMinor+" does not have a document of this kind and version"
	case strings.HasSuffix(message, ": missing kind") || strings.HasSuffix(message, ": missing apiVersion"):
		out.Kind, out.Message = "missing", "a document of the configuration has no kind or no apiVersion"
	case alreadyAt.MatchString(message):
		out.Kind, out.Line = "duplicate", lineIn(text, alreadyAt, message)
		out.Message = "a mapping of the configuration holds a key twice"
	default:
		out.Message = "a value of the configuration does not fit its field"
		if _, rest, ok := strings.Cut(message, "): "); ok {
			if line := lineIn(text, yamlLine, rest); line > 0 {
				out.Line = line
			}
		}
	}
	return out
}

// syntaxLine finds the line a scanner error speaks of; where it names an offset, the
// line is counted.
func syntaxLine(text []byte, message string) int {
	if found := yamlOffset.FindStringSubmatch(message); found != nil {
		if offset, err := strconv.Atoi(found[1]); err == nil && offset <= len(text) {
			return lineAt(text, offset)
		}
		return 0
	}
	if line := lineIn(text, yamlLine, message); line > 0 {
		return line
	}
	if at := bytes.IndexFunc(text, control); at >= 0 {
		return lineAt(text, at)
	}
	return 0
}

// control is true for the characters YAML does not allow unescaped.
func control(r rune) bool {
	return r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0x7f
}

// lineIn takes the first number the shape finds, cut to the lines the text has.
func lineIn(text []byte, shape *regexp.Regexp, message string) int {
	found := shape.FindStringSubmatch(message)
	if found == nil {
		return 0
	}
	line, err := strconv.Atoi(found[1])
	if err != nil || line < 1 {
		return 0
	}
	return min(line, lineAt(text, len(text)))
}

// maxProblems is how many validation problems are listed.
const maxProblems = 50

// validationProblems says what machinery's validation refused, one Problem per leaf of
// its error tree, worded with the fixed vocabulary.
func validationProblems(err error) []policy.Problem {
	var out []policy.Problem
	var visit func(error)
	visit = func(err error) {
		if err == nil || len(out) == maxProblems {
			return
		}
		if many, ok := err.(interface{ WrappedErrors() []error }); ok {
			for _, e := range many.WrappedErrors() {
				visit(e)
			}
			return
		}
		if many, ok := err.(interface{ Unwrap() []error }); ok {
			for _, e := range many.Unwrap() {
				visit(e)
			}
			return
		}
		var tree interface{ WrappedErrors() []error }
		if errors.As(err, &tree) {
			for _, e := range tree.WrappedErrors() {
				visit(e)
			}
			return
		}
		out = append(out, policy.Problem{Kind: "invalid", Message: "validation says: " + plainWords(err.Error())})
	}
	visit(err)
	return out
}
