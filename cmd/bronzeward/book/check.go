package book

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"golang.org/x/mod/sumdb/note"

	"bronzeward/audit/tree"
	"bronzeward/cmd/bronzeward/cli"
)

type checkCmd struct {
	File      string `arg:"" help:"The proof, as \"bronzeward decisions prove\" prints it, or - for standard input."`
	PublicKey string `required:"" placeholder:"FILE" help:"Public keys of the checkpoints, as \"bronzeward openbao checkpoint-key --public-key\" prints them."`
}

// proven is what a proof that holds shows.
type proven struct {
	Proven   bool            `json:"proven"`
	Decision decision        `json:"decision"`
	Place    provenPlace     `json:"place"`
	Record   json.RawMessage `json:"record"`
	Outcomes []provenOutcome `json:"outcomes"`
}

// provenPlace is where a record stands, and who signed that.
type provenPlace struct {
	Leaf     string `json:"leaf"` // in hex
	Index    int64  `json:"index"`
	Size     int64  `json:"size"` // leaves that the checkpoint covers
	Root     string `json:"root"`
	Origin   string `json:"origin"`
	SignedBy string `json:"signed_by"`
}

type provenOutcome struct {
	outcome
	Place provenPlace `json:"place"`
}

// Run checks the proof. It reads two files and nothing else.
func (c *checkCmd) Run(_ context.Context, g *cli.Globals) error {
	keys, err := publicKeys(g, c.PublicKey)
	if err != nil {
		return err
	}
	raw, err := readOwn(g, "the proof", c.File)
	if err != nil {
		return err
	}
	proof, err := tree.ParseProof(raw)
	if err != nil {
		return cli.NotWhole(fmt.Errorf("nothing is proven: %w", err))
	}
	shown, err := proof.Open(keys)
	if err != nil {
		return cli.NotWhole(fmt.Errorf("nothing is proven: %w", keyErrors(err)))
	}
	view := viewProven(&proof, &shown, keys)
	if g.Output != "table" {
		return g.Print(view, nil, nil)
	}
	d := &whole{Decision: view.Decision}
	for _, o := range view.Outcomes {
		d.Outcomes = append(d.Outcomes, o.outcome)
	}
	tellDecision(g.Out, d, &shown.Entry)
	g.Say("\nproven: the decision stands in the book of %s", view.Place.Origin)
	tellProof(g, "the decision", view.Place)
	for i, o := range view.Outcomes {
		tellProof(g, fmt.Sprintf("outcome %d, %s of %s", i+1, o.Kind, cli.Stamp(&o.Time)), o.Place)
	}
	g.Say("  a proof shows what it holds; an outcome that was left out of it, it cannot show")
	return nil
}

func tellProof(g *cli.Globals, what string, p provenPlace) {
	g.Say("  %s is leaf %d of the %d that the checkpoint covers, signed by %s\n      leaf %s", cli.OneLine(what), p.Index, p.Size, p.SignedBy, p.Leaf)
}

func viewProven(p *tree.Proof, shown *tree.Proven, keys note.Verifiers) proven {
	e := &shown.Entry
	place := func(c tree.Checkpoint, index int64, leaf [32]byte) provenPlace {
		return provenPlace{
			Leaf: fmt.Sprintf("%x", leaf), Index: index, Size: c.Size, Root: c.Root.String(), Origin: c.Origin, SignedBy: signedBy(string(c.Note), keys),
		}
	}
	v := proven{
		Proven: true, Place: place(shown.Checkpoint, shown.Index, shown.Leaf), Record: json.RawMessage(p.Entry.Record), Outcomes: []provenOutcome{},
		Decision: decision{
			ID: e.ID.String(), Time: shown.RecordedAt, Kind: string(e.Kind), Verdict: string(e.Verdict), Codes: append([]string{}, e.Codes...),
			Issuer: e.Caller.Issuer, Subject: e.Caller.Subject, Client: e.ClientAddress, Machine: e.MachineName, Cluster: e.Cluster, Method: e.Method,
			Class: e.Class, Mode: e.Mode, DryRun: e.DryRun, Digest: e.Digest, Base: e.Base, Persistent: e.Persistent, Change: e.ChangeID,
			Revision: e.PolicyRevision, Count: e.Count,
		},
	}
	if e.AttemptID != [16]byte{} {
		v.Decision.Attempt = e.AttemptID.String()
	}
	for _, o := range shown.Outcomes {
		x := o.Outcome
		v.Outcomes = append(v.Outcomes, provenOutcome{
			outcome: outcome{
				ID: x.ID.String(), Leaf: fmt.Sprintf("%x", o.Leaf), Time: o.RecordedAt, Kind: string(x.Kind), State: x.State, Code: x.Code, Message: x.Message,
				Digest: x.Digest, Persistent: x.Persistent, Subject: x.Caller.Subject, Instance: x.Instance,
			},
			Place: place(o.Checkpoint, o.Index, o.Leaf),
		})
		v.Decision.Outcome = x.State
		if x.State == "" {
			v.Decision.Outcome = x.Code
		}
	}
	return v
}

// errNoCheckpoint is for a book that has none.
var errNoCheckpoint = errors.New("the book has no checkpoint yet: a gateway that reaches OpenBao signs one every few seconds")
