package tree

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"golang.org/x/mod/sumdb/tlog"
)

// ProofVersion is the version of the proof, its member "v".
const ProofVersion = 1

// maxProof bounds a proof that is read: thousands of the largest records.
const maxProof = 64 << 20

// ErrProof means that the text is no proof of this version.
var ErrProof = errors.New("no proof")

// Proof shows, to whoever has the public keys alone, that an entry and its outcomes stand in the book.
//
// # The file, version 1
//
// One JSON object in UTF-8. Every member is there, none other, none twice. Hashes are in base64 (44 characters).
//
//	v            1
//	checkpoints  list of signed notes (c2sp.org/tlog-checkpoint), each a string with its newlines. One, unless the
//	             entry and an outcome are in trees of different epochs
//	entry        object, the entry:
//	             record       the canonical bytes, as a string: what audit.RecordVersion documents
//	             recorded_at  the database's clock: RFC 3339 in UTC with six decimals
//	             leaf         SHA-256 of a zero byte, record, and recorded_at as microseconds since 1970 in eight
//	                          bytes, big endian. Redundant: it tells an altered record from a wrong place
//	             checkpoint   place in checkpoints, from 0
//	             index        place of the leaf in the checkpoint's tree, from 0
//	             path         list of hashes, the inclusion proof of RFC 6962, from the leaf to the root
//	outcomes     list of the same object, one per outcome, in the order of tree and index
//
// A proof shows that what it holds is in the book. That an outcome was left out it cannot show.
type Proof struct {
	V           int         `json:"v"`
	Checkpoints []string    `json:"checkpoints"`
	Entry       Inclusion   `json:"entry"`
	Outcomes    []Inclusion `json:"outcomes"`
}

// Inclusion is one record and its place, as documented at Proof.
type Inclusion struct {
	Record     string           `json:"record"`
	RecordedAt string           `json:"recorded_at"`
	Leaf       tlog.Hash        `json:"leaf"`
	Checkpoint int              `json:"checkpoint"`
	Index      int64            `json:"index"`
	Path       tlog.RecordProof `json:"path"`
}

// timeFormat is RFC 3339 with the database's own resolution.
const timeFormat = "2006-01-02T15:04:05.000000Z07:00"

// members of the two objects.
var (
	proofMembers     = []string{"v", "checkpoints", "entry", "outcomes"}
	inclusionMembers = []string{"record", "recorded_at", "leaf", "checkpoint", "index", "path"}
)

// ParseProof reads a proof strictly: unknown, missing, repeated and wrongly spelled members, other versions, and anything
// after the object are refused with ErrProof. White space between tokens is free. It checks nothing; Open and Check do.
func ParseProof(text []byte) (Proof, error) {
	fail := func(what any) (Proof, error) {
		return Proof{}, fmt.Errorf("reading a proof: %w: %v", ErrProof, what)
	}
	if len(text) > maxProof {
		return fail(fmt.Sprintf("it is longer than %d bytes", maxProof))
	}
	var head struct {
		V *int `json:"v"`
	}
	if err := json.Unmarshal(text, &head); err != nil || head.V == nil {
		return fail("it is not one JSON object with a version")
	}
	if *head.V != ProofVersion {
		return fail(fmt.Sprintf("its version is %d, this program reads %d", *head.V, ProofVersion))
	}
	if err := exactMembers(text, proofMembers); err != nil {
		return fail(err)
	}
	var parts struct {
		Entry    json.RawMessage   `json:"entry"`
		Outcomes []json.RawMessage `json:"outcomes"`
	}
	if err := json.Unmarshal(text, &parts); err != nil {
		return fail("its outcomes are no list")
	}
	for i, part := range append([]json.RawMessage{parts.Entry}, parts.Outcomes...) {
		if err := exactMembers(part, inclusionMembers); err != nil {
			return fail(fmt.Errorf("%s: %w", which(i), err))
		}
	}
	var p Proof
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return fail("a member is not of its type")
	}
	return p, nil
}

// which names a record by its place: 0 is the entry.
func which(i int) string {
	if i == 0 {
		return "the entry"
	}
	return fmt.Sprintf("outcome %d", i)
}

// exactMembers demands one JSON object with exactly these members, each once and spelled so.
func exactMembers(text []byte, members []string) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		return errors.New("it is no JSON object")
	}
	var seen []string
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return errors.New("it is no JSON object")
		}
		name, _ := t.(string)
		if !slices.Contains(members, name) {
			return fmt.Errorf("it has a member %.40q", name)
		}
		if slices.Contains(seen, name) {
			return fmt.Errorf("it has %q twice", name)
		}
		seen = append(seen, name)
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return errors.New("it is no JSON object")
		}
		if string(value) == "null" {
			return fmt.Errorf("its member %q is null", name)
		}
	}
	if _, err := d.Token(); err != nil {
		return errors.New("it is no JSON object")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows it")
	}
	for _, name := range members {
		if !slices.Contains(seen, name) {
			return fmt.Errorf("it lacks %q", name)
		}
	}
	return nil
}

// Encode spells the proof as a file: indented, with a newline at its end.
func (p Proof) Encode() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(p); err != nil {
		return nil, fmt.Errorf("writing a proof: %w", err)
	}
	return b.Bytes(), nil
}
