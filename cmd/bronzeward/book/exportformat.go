package book

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"

	"bronzeward/audit"
	"bronzeward/policy"
)

// exportVersion is the version of the lines of --format jsonl. It moves when a member changes its
// meaning or goes away; docs/record.md has the members.
const exportVersion = 1

// format is one shape of exported lines.
type format struct {
	// entries is true when outcomes have no line.
	entries bool
	// line appends the line of a row, its line end included, or nothing for a row that has none.
	// It is false for a row without a readable record.
	line func(b []byte, r *row) ([]byte, bool)
	// idOf reads the id of the row that a line was written for.
	idOf func(line []byte) (uuid.UUID, error)
}

func formats() map[string]format {
	return map[string]format{
		"jsonl": {line: jsonLine, idOf: idOfLine},
		"opa":   {entries: true, line: opaLine, idOf: idOfOPA},
	}
}

// jsonLine has the record byte for byte, so that whoever has the line can compute the leaf. A
// record that is no JSON of one line cannot stand there: it is given as base64.
func jsonLine(b []byte, r *row) ([]byte, bool) {
	b = append(b, `{"v":`...)
	b = strconv.AppendInt(b, exportVersion, 10)
	b = append(b, `,"tree":`...)
	b = strconv.AppendInt(b, int64(r.tree), 10)
	b = append(b, `,"index":`...)
	b = strconv.AppendInt(b, r.index, 10)
	b = append(b, `,"source":"`...)
	b = append(b, r.source...) // one of two words, by the table's constraint
	b = append(b, `","id":"`...)
	b = append(b, r.id.String()...)
	b = append(b, `","recorded_at":"`...)
	b = r.recordedAt.AppendFormat(b, recordedFormat)
	b = append(b, `","leaf":"`...)
	b = hex.AppendEncode(b, r.leaf)
	switch {
	case r.record == nil:
		return append(b, "\",\"record\":null}\n"...), false
	case bytes.IndexByte(r.record, '\n') >= 0 || bytes.IndexByte(r.record, '\r') >= 0 || !json.Valid(r.record):
		text, _ := json.Marshal(r.record) // bytes always are base64
		b = append(b, `","record":null,"bytes":`...)
		return append(append(b, text...), "}\n"...), false
	}
	b = append(b, `","record":`...)
	return append(append(b, r.record...), "}\n"...), true
}

// recordedFormat has the database's own resolution.
const recordedFormat = "2006-01-02T15:04:05.000000Z07:00"

func idOfLine(line []byte) (uuid.UUID, error) {
	var l struct {
		V  int       `json:"v"`
		ID uuid.UUID `json:"id"`
	}
	if err := json.Unmarshal(line, &l); err != nil {
		return uuid.Nil, errors.New("its last line is not of this format")
	}
	if l.V != exportVersion || l.ID == uuid.Nil {
		return uuid.Nil, fmt.Errorf("its last line is not of version %d of this format", exportVersion)
	}
	return l.ID, nil
}

// opaEvent is a decision as OPA writes its decision log
// (https://www.openpolicyagent.org/docs/management-decision-logs).
type opaEvent struct {
	Labels      map[string]string    `json:"labels"`
	DecisionID  string               `json:"decision_id"`
	Bundles     map[string]opaBundle `json:"bundles"`
	Path        string               `json:"path"`
	Input       json.RawMessage      `json:"input"`
	Result      opaResult            `json:"result"`
	RequestedBy string               `json:"requested_by"`
	Timestamp   time.Time            `json:"timestamp"`
}

type opaBundle struct {
	Revision string `json:"revision"`
}

// opaResult is what of the law's answer is in the book.
type opaResult struct {
	Allow     bool            `json:"allow"`
	Reasons   []policy.Reason `json:"reasons"`
	Approvals int             `json:"approvals_required"`
}

// opaLine is nothing for an entry that the law did not decide.
func opaLine(b []byte, r *row) ([]byte, bool) {
	if r.record == nil {
		return b, false
	}
	e, err := audit.ParseEntry(r.record)
	if err != nil {
		return b, false
	}
	if e.PolicyRevision == "" || len(e.Facts) == 0 || e.Verdict == audit.Refused {
		return b, true
	}
	path := "bronzeward/admission/decision"
	if e.Kind != audit.KindRPC && e.Class == "act" {
		path = "bronzeward/api/decision"
	}
	reasons := e.Reasons
	if reasons == nil {
		reasons = []policy.Reason{}
	}
	line, err := json.Marshal(opaEvent{
		Labels: map[string]string{"app": "bronzeward", "id": e.Instance, "version": e.OPAVersion}, DecisionID: e.ID.String(),
		Bundles: map[string]opaBundle{"bronzeward": {e.PolicyRevision}}, Path: path, Input: e.Facts,
		Result: opaResult{e.Verdict == audit.Allowed, reasons, e.ApprovalsNeeded}, RequestedBy: e.ClientAddress, Timestamp: r.recordedAt,
	})
	if err != nil {
		return b, false
	}
	return append(append(b, line...), '\n'), true
}

func idOfOPA(line []byte) (uuid.UUID, error) {
	var l struct {
		ID     uuid.UUID         `json:"decision_id"`
		Labels map[string]string `json:"labels"`
	}
	if err := json.Unmarshal(line, &l); err != nil || l.ID == uuid.Nil || l.Labels["app"] != "bronzeward" {
		return uuid.Nil, errors.New("its last line is not of this format")
	}
	return l.ID, nil
}
