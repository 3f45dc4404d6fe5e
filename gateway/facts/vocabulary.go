package facts

import (
	_ "embed"
	"strings"
)

// vocabularyText holds the words machinery's validation has in its own error texts and
// the names of its fields and kinds, one a line; a test holds it against the source.
//
//go:embed vocabulary.txt
var vocabularyText string

// vocabulary is never written after it is made.
var vocabulary = func() map[string]bool {
	out := make(map[string]bool)
	for word := range strings.FieldsSeq(vocabularyText) {
		out[word] = true
	}
	return out
}()

// maxSentence is how many bytes of an error text are worded.
const maxSentence = 2 << 10

// plainWords writes an error text with every word that is not of the vocabulary
// replaced by "…". Validation quotes the configuration freely; what a stranger or a
// secret put there stays out unless it is a word machinery itself says.
func plainWords(message string) string {
	if len(message) > maxSentence {
		message = message[:maxSentence]
	}
	var out strings.Builder
	hidden := false
	hide := func() {
		if !hidden {
			out.WriteString("…")
		}
		hidden = true
	}
	quoted := false
	for i := 0; i < len(message); {
		b := message[i]
		switch {
		case b == '"':
			quoted = !quoted
			hide()
			i++
		case quoted || b >= 0x80:
			hide()
			i++
		case alphanumeric(b) || b == '_':
			end := i
			for end < len(message) && (alphanumeric(message[end]) || message[end] == '_' || message[end] >= 0x80) {
				end++
			}
			if word := message[i:end]; vocabulary[word] {
				out.WriteString(word)
				hidden = false
			} else {
				hide()
			}
			i = end
		case strings.IndexByte(" .,:()[]-/'", b) >= 0:
			if !hidden || b == ' ' {
				out.WriteByte(b)
				hidden = hidden && b != ' '
			}
			i++
		case b == '\n' || b == '\t' || b == '*':
			out.WriteByte(' ')
			i++
		default:
			hide()
			i++
		}
	}
	return strings.Join(strings.Fields(out.String()), " ")
}
