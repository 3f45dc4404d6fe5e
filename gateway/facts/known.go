package facts

import "strings"

// Limits on remembering what is masked.
const (
	maxKnown   = 200_000    // values and parts; with more no text is shown at all
	maxCompare = 2 * maxKey // bytes above which a value equals nothing that could be shown
)

// partSigns are what the parts of a token, a path or a composed password stand between.
const partSigns = "./-:"

// known is what is masked in the configurations at hand. Whoever wrote one could put half
// of a token into a label; such a text is masked there too. After it is made it is
// immutable; a nil one knows nothing.
type known struct {
	values map[string]struct{}
	full   bool
}

// knownOf collects what is masked in configurations by its field or its look. It writes
// to none of them.
func knownOf(configurations ...*parsed) *known {
	out := &known{values: make(map[string]struct{})}
	for _, p := range configurations {
		if p == nil {
			continue
		}
		m := masker{sink: out, dry: true}
		for _, document := range p.documents {
			m.document(document)
		}
		out.full = out.full || m.err != nil
	}
	return out
}

// add takes a masked value and its parts of eight bytes and more.
func (k *known) add(value string) {
	spread(value, func(v string) bool {
		if k.full || len(v) < shortSecret {
			return false
		}
		if !k.note(v) {
			return false
		}
		for _, sign := range partSigns {
			if strings.ContainsRune(v, sign) {
				for part := range strings.SplitSeq(v, string(sign)) {
					k.notePart(part)
				}
			}
		}
		for part := range strings.FieldsFuncSeq(v, partSign) {
			k.notePart(part)
		}
		return true
	})
}

func (k *known) notePart(part string) {
	if len(part) >= longSecret && !vocabulary[part] {
		k.note(part)
	}
}

// note is false for a text that is there already.
func (k *known) note(text string) bool {
	if len(text) > maxCompare {
		return true
	}
	if _, there := k.values[text]; there {
		return false
	}
	if len(k.values) >= maxKnown {
		k.full = true
		return false
	}
	k.values[text] = struct{}{}
	return true
}

// hides is true for a text that is masked somewhere else, or is a part of such a one. A
// part of the text itself counts when there is a digit in it: plain words are parts of
// too many harmless values.
func (k *known) hides(text string) bool {
	if k == nil || text == "" {
		return false
	}
	if k.full {
		return true
	}
	if k.has(text) {
		return true
	}
	for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return partSign(r) || strings.ContainsRune("_=,; ", r) }) {
		if len(part) >= longSecret && strings.ContainsAny(part, "0123456789") && k.has(part) {
			return true
		}
	}
	return false
}

func (k *known) has(text string) bool {
	if k == nil {
		return false
	}
	_, there := k.values[text]
	return there
}

func partSign(r rune) bool { return strings.ContainsRune(partSigns, r) }

// viewer decides what a policy may see. Without a Digester it makes fingerprints that
// stand for any value.
type viewer struct {
	digester Digester
	known    *known
}

func (w viewer) fingerprint(value []byte) string {
	if w.digester == nil {
		return "fp:"
	}
	return w.digester.Fingerprint(value)
}

// maxKey is the longest map key that is shown, in bytes: a DNS name, a slash and a name.
const maxKey = maxName + 64

// key is a map key or document name as it may be shown. Of a key with slashes the part
// before the last one says whose it is and rules match on it, so both parts are judged
// alone: what is no name or has the look of key material is a fingerprint.
func (w viewer) key(key string) string {
	at := strings.LastIndexByte(key, '/')
	if at < 0 {
		return w.name(key)
	}
	prefix, name := key[:at], key[at+1:]
	shownPrefix, shownName := w.name(prefix), w.name(name)
	if w.known.has(key) {
		return w.fingerprint([]byte(prefix)) + "/" + w.fingerprint([]byte(name))
	}
	// Both together may be one text: a slash is a sign of base64, and a dot is none.
	if shownPrefix == prefix && shownName == name && looksSecret("", key) {
		shownName = w.fingerprint([]byte(name))
		if last := prefix[strings.LastIndexByte(prefix, '.')+1:]; last == prefix || len(last) > longSecret {
			shownPrefix = w.fingerprint([]byte(prefix))
		}
	}
	return shownPrefix + "/" + shownName
}

// name is a part of a key.
func (w viewer) name(name string) string {
	switch {
	case name == "":
		return ""
	case len(name) > maxKey || looksSecret("", name) || w.known.hides(name) || strings.IndexFunc(name, unnamable) >= 0:
		return w.fingerprint([]byte(name))
	default:
		return name
	}
}

// unnamable is true for everything outside printable ASCII and for what would break a
// path or a message.
func unnamable(r rune) bool {
	return r <= ' ' || r > '~' || strings.ContainsRune("\"'`\\<>{}|^;&$", r)
}
