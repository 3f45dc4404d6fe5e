package law

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/policy"
	"bronzeward/policytest"
)

// maxCallFile is the largest file of a call that is read, in bytes: the largest facts that an entry
// holds, indented, are below it.
const maxCallFile = 64 << 20

// read reads a file, or standard input for -, of at most so many bytes.
func read(g *cli.Globals, name string, most int64) ([]byte, error) {
	from := g.In
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		from = f
	}
	text, err := io.ReadAll(io.LimitReader(from, most+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading %s: %w", name, err)
	case len(text) == 0:
		return nil, fmt.Errorf("%s is empty", name)
	case int64(len(text)) > most:
		return nil, fmt.Errorf("%s has more than %d bytes", name, most)
	}
	return text, nil
}

// evalCall is one call as it is judged: by its facts, or as it stands in the book.
type evalCall struct {
	facts    *policy.Facts
	recorded *policy.Recorded
	raw      []byte           // what stands in the book, as JSON
	of       *policytest.File // the case file it is of; null without
}

// readCall reads the facts of a call, a decision as decisions show prints it, or a case of a case
// file, by the members that only one of them has. All are read strictly: a member that facts do not
// have is an error that names it. of is the case wanted; "" is the only one.
func readCall(text []byte, of string) (*evalCall, error) {
	doc, err := policy.DecodeDocument(text)
	if err != nil {
		return nil, fmt.Errorf("neither YAML nor JSON: %w", err)
	}
	members, ok := doc.(map[string]any)
	if !ok {
		return nil, errors.New("it holds no facts of a call, no decision and no cases")
	}
	_, hasBase := members["base"]
	_, hasCases := members["cases"]
	record, hasRecord := members["record"]
	if hasBase || hasCases {
		return readCase(text, of)
	}
	if of != "" {
		return nil, errors.New("--case is of a case file, and this is none")
	}
	if !hasRecord {
		f, err := policy.DecodeFacts(text)
		return &evalCall{facts: f}, err
	}
	inner, ok := record.(map[string]any)
	if !ok || inner["facts"] == nil {
		return nil, errors.New("no law decided this, so that there are no facts to judge it on")
	}
	raw, err := recordedFacts(text, inner)
	if err != nil {
		return nil, err
	}
	_, isAct := inner["facts"].(map[string]any)["act"]
	if isAct {
		_, err = policy.DecodeAct(raw)
	} else {
		_, err = policy.DecodeFacts(raw)
	}
	if err != nil {
		return nil, err
	}
	c := &evalCall{raw: raw}
	c.recorded, err = policy.ReadRecorded(raw)
	return c, err
}

// recordedFacts are the facts of a record as they stand in it where it is JSON, since a number of a
// configuration may be longer than YAML's.
func recordedFacts(text []byte, record map[string]any) ([]byte, error) {
	if _, ok := record["facts"].(map[string]any); !ok {
		return nil, errors.New("what it has under record.facts are no facts")
	}
	var shown struct {
		Record struct {
			Facts json.RawMessage `json:"facts"`
		} `json:"record"`
	}
	if json.Unmarshal(text, &shown) == nil {
		var plain strings.Builder
		enc := json.NewEncoder(&plain)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(shown.Record.Facts); err != nil { // without the indentation
			return nil, err
		}
		return []byte(strings.TrimSuffix(plain.String(), "\n")), nil
	}
	return json.Marshal(record["facts"])
}

// readCase finds a case in its file.
func readCase(text []byte, name string) (*evalCall, error) {
	f, err := policytest.Decode(text)
	if err != nil {
		return nil, err
	}
	var names []string
	for i, c := range f.Cases {
		if c.Name == name || name == "" && len(f.Cases) == 1 {
			facts, err := f.Facts(f.Cases[i])
			return &evalCall{facts: facts, of: &f}, err
		}
		names = append(names, c.Name)
	}
	if name == "" {
		return nil, fmt.Errorf("it has %d cases: choose one with --case:\n  %s", len(names), strings.Join(names, "\n  "))
	}
	return nil, fmt.Errorf("it has no case %q, but:\n  %s", name, strings.Join(names, "\n  "))
}

// law is the law that judges the call: a case file may lay data over it.
func (c *evalCall) law(b *policy.Bundle) (*policy.Bundle, error) {
	if c.of == nil {
		return b, nil
	}
	return c.of.Law(b)
}

// explain judges the call, as it stands in the book where it is recorded.
func (c *evalCall) explain(ctx context.Context, e *policy.Engine) (policy.Explanation, error) {
	if c.recorded != nil {
		return e.ExplainRecorded(ctx, c.recorded)
	}
	return e.Explain(ctx, c.facts)
}
