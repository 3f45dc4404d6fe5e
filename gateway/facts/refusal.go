package facts

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Reason is the stable class of a Refusal; the gateway turns it into a code.
type Reason string

// The reasons this package refuses a Call for.
const (
	ReasonMalformed     Reason = "malformed"      // the message cannot be read as the method's request
	ReasonUnknownField  Reason = "unknown-field"  // the message holds a field the node's version does not know
	ReasonRepeatedField Reason = "repeated-field" // a field that may occur once occurs twice: the last would win
	ReasonTooLarge      Reason = "too-large"      // over MaxMessage
	ReasonMode          Reason = "mode"           // an apply mode that does not exist
	ReasonUnsupported   Reason = "unsupported"    // a method whose request is not compiled in, or an upload

	ReasonMetadata       Reason = "metadata"         // target metadata with forbidden characters or sizes
	ReasonTargetNone     Reason = "target-none"      // no machine named
	ReasonTargetMany     Reason = "target-many"      // more than one machine where one is legal
	ReasonTargetUnknown  Reason = "target-unknown"   // a machine nobody has added
	ReasonTargetAmbig    Reason = "target-ambiguous" // a spelling that fits two machines
	ReasonTargetForm     Reason = "target-form"      // node and nodes together, several node values, nodes where apid refuses it
	ReasonClusterUnknown Reason = "cluster-unknown"  // a context nobody has added
)

// Refusal says why a Call cannot be judged at all. Its texts are for the caller: the
// message is a short lower-case sentence, the hint a command or empty; control
// characters of the caller's own words are escaped in both.
type Refusal struct {
	Reason  Reason
	Message string
	Hint    string
}

// Error returns the message.
func (r *Refusal) Error() string { return r.Message }

func refuse(reason Reason, format string, args ...any) *Refusal {
	return &Refusal{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

func (r *Refusal) hint(format string, args ...any) *Refusal {
	r.Hint = fmt.Sprintf(format, args...)
	return r
}

// shownLimit is how many bytes of a stranger's word an error repeats.
const shownLimit = 80

// notShown stands for a word that was written where a name belongs and looks like a key.
const notShown = "(not shown: it looks like a secret)"

// Word is a stranger's word as it may be kept and shown: notShown in its place when it has
// the look of key material, because somebody pasted a token where a name belongs.
func Word(word string) string {
	if looksSecret("", word) {
		return notShown
	}
	return word
}

// escape writes a stranger's word for an error text: quoted, ASCII, cut, and not at all when it
// looks like a secret.
func escape(word string) string {
	if looksSecret("", word) {
		return notShown
	}
	cut := ""
	if len(word) > shownLimit {
		word, cut = strings.ToValidUTF8(word[:shownLimit], "\uFFFD"), "…"
	}
	if !utf8.ValidString(word) {
		word = strings.ToValidUTF8(word, "\uFFFD")
	}
	return strconv.QuoteToASCII(word) + cut
}
