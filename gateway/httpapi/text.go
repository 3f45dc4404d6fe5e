package httpapi

import (
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	// mostQuoted is the longest text of a stranger's that a sentence repeats, in bytes.
	mostQuoted = 100
	// mostDetail is the longest sentence, in bytes.
	mostDetail = 2000
)

// quoted is a stranger's text as it may stand in a sentence or log line: in quotes, cut, and
// with everything but printable ASCII as an escape, so that letters that look alike differ.
func quoted(text string) string {
	short, cut := clip(text, mostQuoted)
	return strconv.QuoteToASCII(short) + cut
}

// plain is a sentence that may hold strangers' texts, safe to print: on one line, cut, and
// with every character beyond printable ASCII escaped, typographic marks apart.
func plain(sentence string, most int) string {
	sentence, cut := clip(sentence, most)
	if strings.IndexFunc(sentence, unlike) < 0 {
		return sentence + cut
	}
	var out strings.Builder
	for _, r := range sentence {
		if !unlike(r) {
			out.WriteRune(r)
			continue
		}
		escaped := strconv.QuoteRuneToASCII(r)
		out.WriteString(escaped[1 : len(escaped)-1])
	}
	return out.String() + cut
}

// unlike is true for characters that a reader may take for others, or not see.
func unlike(r rune) bool {
	return (r < ' ' || r > '~') && !strings.ContainsRune("…→—–·×“”’", r)
}

// clip shortens a text to at most so many bytes, never inside a character.
func clip(s string, most int) (short, mark string) {
	if len(s) <= most {
		return s, ""
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most], "…"
}

// inQuotes is a text that quoted wrote.
var inQuotes = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// unquoted is a sentence as it may be kept: what it quotes of a stranger's and is no name is
// left out. Who wrote it gets it back; the book does not keep it, because it may be a secret.
func unquoted(sentence string) string {
	return inQuotes.ReplaceAllStringFunc(sentence, func(quote string) string {
		if name(quote[1:len(quote)-1]) == noName {
			return `"…"`
		}
		return quote
	})
}

// noName stands for a part of a path that is neither an id nor a name.
const noName = "(no name)"

// mostRun is how many letters and digits without a sign between them a name or an id has at
// most: an id of Bronzeward's has 26.
const mostRun = 40

// name is a part of a path as it may be kept: names and ids here are lower-case letters, digits
// and a few signs. What is something else is not kept, because it may be a token or a password
// that somebody pasted where a name belongs.
func name(text string) string {
	run := 0
	for _, r := range text {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			run++
		case strings.ContainsRune("-_.:", r):
			run = 0
		default:
			return noName
		}
		if run > mostRun {
			return noName
		}
	}
	return text
}
