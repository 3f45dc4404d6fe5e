package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"

	"bronzeward/policy"
)

// ErrRecord is in the chain of the errors of ParseEntry and ParseOutcome.
var ErrRecord = errors.New("no canonical record")

// entryRecord and outcomeRecord name the members of RecordVersion's text; Record writes them, these read them.
type entryRecord struct {
	V                int             `json:"v"`
	ID               uuid.UUID       `json:"id"`
	Kind             Kind            `json:"kind"`
	Verdict          Verdict         `json:"verdict"`
	Method           string          `json:"method"`
	Class            string          `json:"class"`
	Mode             string          `json:"mode"`
	DryRun           bool            `json:"dry_run"`
	Caller           Caller          `json:"caller"`
	ClientAddress    string          `json:"client_address"`
	Machine          machineRecord   `json:"machine"`
	Digest           string          `json:"digest"`
	Base             string          `json:"base_digest"`
	Persistent       string          `json:"persistent_digest"`
	ChangeID         string          `json:"change_id"`
	AttemptID        uuid.UUID       `json:"attempt_id"`
	Epoch            uuid.UUID       `json:"epoch"`
	AuthorityVersion int64           `json:"authority_version"`
	PolicyRevision   string          `json:"policy_revision"`
	OPAVersion       string          `json:"opa_version"`
	Reasons          []policy.Reason `json:"reasons"`
	Codes            []string        `json:"codes"`
	ApprovalsNeeded  int             `json:"approvals_needed"`
	Count            int64           `json:"count"`
	Detail           string          `json:"detail"`
	Instance         string          `json:"instance"`
	At               time.Time       `json:"at"`
	Facts            json.RawMessage `json:"facts"`
}

type machineRecord struct {
	ID      uuid.UUID `json:"id"`
	Name    string    `json:"name"`
	Cluster string    `json:"cluster"`
	NodeID  string    `json:"node_id"`
}

type outcomeRecord struct {
	V                 int         `json:"v"`
	ID                uuid.UUID   `json:"id"`
	EntryID           uuid.UUID   `json:"entry_id"`
	AttemptID         uuid.UUID   `json:"attempt_id"`
	Kind              OutcomeKind `json:"kind"`
	State             string      `json:"state"`
	Code              string      `json:"code"`
	Message           string      `json:"message"`
	Digest            string      `json:"digest"`
	Persistent        string      `json:"persistent_digest"`
	ActiveVersion     string      `json:"active_version"`
	PersistentVersion string      `json:"persistent_version"`
	Caller            Caller      `json:"caller"`
	DurationMicros    int64       `json:"duration_us"`
	BytesOut          int64       `json:"bytes_out"`
	Instance          string      `json:"instance"`
}

// ParseEntry reads a record that Entry.Record wrote. It is strict: the entry it returns writes the very same bytes.
func ParseEntry(record []byte) (Entry, error) {
	var r entryRecord
	if err := decode(record, &r); err != nil {
		return Entry{}, err
	}
	e := Entry{
		ID: r.ID, Kind: r.Kind, Verdict: r.Verdict, Method: r.Method, Class: r.Class, Mode: r.Mode, DryRun: r.DryRun,
		Caller: r.Caller, ClientAddress: r.ClientAddress,
		MachineID: r.Machine.ID, MachineName: r.Machine.Name, Cluster: r.Machine.Cluster, NodeID: r.Machine.NodeID,
		Digest: r.Digest, Base: r.Base, Persistent: r.Persistent, ChangeID: r.ChangeID, AttemptID: r.AttemptID, Epoch: r.Epoch,
		AuthorityVersion: r.AuthorityVersion, PolicyRevision: r.PolicyRevision, OPAVersion: r.OPAVersion,
		Reasons: r.Reasons, Codes: r.Codes, ApprovalsNeeded: r.ApprovalsNeeded, Facts: r.Facts, Count: r.Count,
		Detail: r.Detail, Instance: r.Instance, At: r.At,
	}
	if r.V != RecordVersion || !bytes.Equal(e.Record(), record) {
		return Entry{}, fmt.Errorf("reading an entry: %w", ErrRecord)
	}
	return e, nil
}

// ParseOutcome reads a record that Outcome.Record wrote, as strictly as ParseEntry.
func ParseOutcome(record []byte) (Outcome, error) {
	var r outcomeRecord
	if err := decode(record, &r); err != nil {
		return Outcome{}, err
	}
	o := Outcome{
		ID: r.ID, EntryID: r.EntryID, AttemptID: r.AttemptID, Kind: r.Kind, State: r.State, Code: r.Code, Message: r.Message,
		Digest: r.Digest, Persistent: r.Persistent, ActiveVersion: r.ActiveVersion, PersistentVersion: r.PersistentVersion,
		Caller: r.Caller, Duration: time.Duration(r.DurationMicros) * time.Microsecond, BytesOut: r.BytesOut, Instance: r.Instance,
	}
	if r.V != RecordVersion || !bytes.Equal(o.Record(), record) {
		return Outcome{}, fmt.Errorf("reading an outcome: %w", ErrRecord)
	}
	return o, nil
}

func decode(record []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(record))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("reading a record: %w: %w", ErrRecord, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("reading a record: %w: something follows it", ErrRecord)
	}
	return nil
}
