package gateway

import (
	"crypto/subtle"
	"strings"

	"bronzeward/gateway/facts"
)

// digested is a text with its digests, each made once per scheme and key version: a machine
// may have many changes, and comparing them must not hash the text for each, least of all under
// locks. One goroutine owns it.
type digested struct {
	digester facts.Digester
	text     []byte
	made     map[string]made // by scheme and key version
}

// made is a digest, or why there is none.
type made struct {
	digest string
	err    error
}

func (l *look) digests(d facts.Digester, asked []byte) {
	l.asked = &digested{digester: d, text: asked, made: map[string]made{}}
	l.active = &digested{digester: d, text: l.evidence.Active.Text, made: map[string]made{}}
	l.persistent = &digested{digester: d, text: l.evidence.Persistent.Text, made: map[string]made{}}
}

// same is whether stored is the digest of the text. An error says that it cannot be compared.
func (d *digested) same(stored string) (bool, error) {
	key := keyOf(stored)
	m, ok := d.made[key]
	if !ok {
		m.digest, m.err = d.digester.Under(d.text, stored)
		d.made[key] = m
	}
	return m.err == nil && subtle.ConstantTimeCompare([]byte(m.digest), []byte(stored)) == 1, m.err
}

// like is the digest of the text under the key that another digest names; empty without that key.
func (d *digested) like(stored string) string {
	if _, err := d.same(stored); err != nil {
		return ""
	}
	return d.made[keyOf(stored)].digest
}

// keyOf is the scheme and key version of a digest.
func keyOf(digest string) string { return digest[:max(strings.LastIndex(digest, ":"), 0)] }

// under is stored when it is the digest of the text under whatever key it names, else current.
func (d *digested) under(stored, current string) string {
	if same, err := d.same(stored); err == nil && same {
		return stored
	}
	return current
}
