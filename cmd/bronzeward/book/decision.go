package book

import (
	"encoding/json"
	"fmt"
	"time"

	"bronzeward/audit"
	"bronzeward/gateway/httpapi/api"
)

// decision is one decision as it is listed.
type decision struct {
	ID      string    `json:"id"`
	Time    time.Time `json:"time"`
	Kind    string    `json:"kind"`
	Verdict string    `json:"verdict"`
	Codes   []string  `json:"codes"`
	Issuer  string    `json:"issuer"`
	Subject string    `json:"subject"`
	Client  string    `json:"client_address"`
	Machine string    `json:"machine"`
	Cluster string    `json:"cluster"`
	Method  string    `json:"method"`
	// Resource is what a COSI call names, type and id.
	Resource   string `json:"resource"`
	Class      string `json:"class"`
	Mode       string `json:"mode"`
	DryRun     bool   `json:"dry_run"`
	Digest     string `json:"digest"`
	Base       string `json:"base_digest"`
	Persistent string `json:"persistent_digest"`
	Change     string `json:"change"`
	Attempt    string `json:"attempt"`
	Revision   string `json:"policy_revision"`
	Count      int64  `json:"count"`
	Outcome    string `json:"outcome"`
}

func viewDecision(r *audit.Row) decision {
	v := decision{
		ID: r.ID.String(), Time: r.RecordedAt, Kind: string(r.Kind), Verdict: string(r.Verdict), Codes: r.Codes,
		Issuer: r.Issuer, Subject: r.Subject, Client: r.ClientAddress, Machine: r.MachineName, Cluster: r.Cluster,
		Method: r.Method, Class: r.Class, Mode: r.Mode, DryRun: r.DryRun, Digest: r.Digest, Base: r.Base, Persistent: r.Persistent,
		Change: r.ChangeID, Revision: r.PolicyRevision, Count: r.Count,
	}
	if v.Codes == nil {
		v.Codes = []string{} // a list in JSON, so that a script can walk it
	}
	if r.AttemptID != [16]byte{} {
		v.Attempt = r.AttemptID.String()
	}
	if r.Last != nil {
		v.Outcome = outcomeWord(r.Last)
	}
	return v
}

// outcomeWord is the last outcome in one word: the attempt's state, or the node's code.
func outcomeWord(o *audit.OutcomeRow) string {
	if o.State != "" {
		return o.State
	}
	return o.Code
}

// outcome is one thing that became of a decision.
type outcome struct {
	ID         string    `json:"id"`
	Leaf       string    `json:"leaf"`
	Time       time.Time `json:"time"`
	Kind       string    `json:"kind"`
	State      string    `json:"state"`
	Code       string    `json:"code"`
	Message    string    `json:"message"`
	Digest     string    `json:"digest"`
	Persistent string    `json:"persistent_digest"`
	Subject    string    `json:"subject"`
	Instance   string    `json:"instance"`
}

// viewOutcome is an outcome as its row has it, with the words of its record.
func viewOutcome(r *audit.OutcomeRow) outcome {
	v := outcome{
		Time: r.RecordedAt, Kind: string(r.Kind), State: r.State, Code: r.Code, Digest: r.Digest, Persistent: r.Persistent,
		Subject: r.Subject, Instance: r.Instance, ID: r.ID.String(), Leaf: fmt.Sprintf("%x", r.Leaf),
	}
	if o, err := audit.ParseOutcome(r.Record); err == nil {
		v.Message = o.Message
	}
	return v
}

// whole is one decision with all there is about it.
type whole struct {
	Decision decision `json:"decision"`
	// Leaf is the leaf hash of the entry, in hex.
	Leaf string `json:"leaf"`
	// Place is null while the entry is not in the tree, and where a gateway told.
	Place *placed `json:"place"`
	// Record is the canonical record, byte for byte; null for one that is no JSON, which is in
	// Bytes then.
	Record   json.RawMessage `json:"record"`
	Bytes    []byte          `json:"bytes,omitempty"`
	Outcomes []outcome       `json:"outcomes"`
	// Attempt and Change are as they stand now; a gateway tells them.
	Attempt *api.Attempt `json:"attempt,omitempty"`
	Change  *api.Change  `json:"change,omitempty"`

	raw []byte // the record, whatever it is
	// looked is whether the place was looked for.
	looked bool
}

func (w *whole) setRecord(raw []byte) {
	w.raw, w.Record = raw, json.RawMessage("null")
	if json.Valid(raw) {
		w.Record = raw
	} else {
		w.Bytes = raw
	}
}
