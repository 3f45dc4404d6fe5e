package control

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"bronzeward/policy"
)

// scanChange reads a row of control.change_rows.
func scanChange(row pgx.CollectableRow) (Change, error) {
	var c Change
	var attempt, drift *uuid.UUID
	err := row.Scan((*uuid.UUID)(&c.ID), &c.MachineID, &c.MachineName, &c.Cluster, &c.Kind, &c.Mode, &c.TryTimeout, &c.Digest, &c.Size,
		&c.Base, &c.Persistent, &c.Identity.NodeID, &c.Identity.ClusterID, &c.Identity.SMBIOS, &c.Epoch, &c.Set,
		&c.Requester.Issuer, &c.Requester.Subject, &c.EntryID, &c.Asked.Required, &c.Asked.Groups, &c.Asked.SelfApproval,
		&c.CreatedAt, &c.ApproveBy, &c.UseWithin, &c.State, &c.Since, &c.UseBy, &attempt,
		&c.By.Issuer, &c.By.Subject, &c.Reason, &c.OvertakenBy, &c.RequesterRevoked, &c.Sealed, &c.Diffs,
		&drift, &c.Why)
	if attempt != nil {
		c.AttemptID = *attempt
	}
	if drift != nil {
		c.Drift = DriftID(*drift)
	}
	return c, err
}

// scanApproval reads a row of control.approval_rows.
func scanApproval(row pgx.CollectableRow) (Approval, error) {
	var a Approval
	err := row.Scan((*uuid.UUID)(&a.ID), (*uuid.UUID)(&a.ChangeID), &a.Digest, &a.Epoch, &a.Approver.Issuer, &a.Approver.Subject,
		&a.Kind, &a.Groups, &a.Self, &a.Comment, &a.EntryID, &a.At, &a.Revoked, &a.RevokedReason, &a.GroupsNow)
	return a, err
}

// readChanges runs a query of change rows and reads their approvals with one more.
func readChanges(ctx context.Context, q querier, doing, sql string, args ...any) ([]Change, error) {
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return nil, sqlError(doing, err)
	}
	out, err := pgx.CollectRows(rows, scanChange)
	if err != nil {
		return nil, sqlError(doing, err)
	}
	if err := withCompared(ctx, q, doing, out); err != nil {
		return nil, err
	}
	return out, withApprovals(ctx, q, doing, out)
}

// CodeNotCompared is the warning of an adoption whose differences nobody can show.
const CodeNotCompared = "BW-DRIFT-005"

// withCompared says of adoptions whether their differences are known. Others' always are.
func withCompared(ctx context.Context, q querier, doing string, list []Change) error {
	at := map[uuid.UUID]*Change{}
	for i := range list {
		if list[i].Kind == KindAdopt {
			at[uuid.UUID(list[i].ID)] = &list[i]
		}
	}
	if len(at) == 0 {
		return nil
	}
	rows, err := q.Query(ctx, sqlChangesNotCompared, slices.Collect(maps.Keys(at)), CodeNotCompared)
	if err != nil {
		return sqlError(doing, err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return sqlError(doing, err)
	}
	for _, id := range found {
		at[id].NotCompared = true
	}
	return nil
}

// Compared is true when the review says what the change changes.
func (r *Review) Compared() bool {
	return !slices.ContainsFunc(r.Warnings, func(w policy.Reason) bool { return w.Code == CodeNotCompared })
}

func withApprovals(ctx context.Context, q querier, doing string, list []Change) error {
	if len(list) == 0 {
		return nil
	}
	ids := make([]uuid.UUID, len(list))
	at := make(map[ChangeID]int, len(list))
	for i := range list {
		ids[i], at[list[i].ID] = uuid.UUID(list[i].ID), i
	}
	rows, err := q.Query(ctx, sqlApprovalsOf, ids)
	if err != nil {
		return sqlError(doing, err)
	}
	all, err := pgx.CollectRows(rows, scanApproval)
	if err != nil {
		return sqlError(doing, err)
	}
	for _, a := range all {
		c := &list[at[a.ChangeID]]
		c.Approvals = append(c.Approvals, a)
	}
	return nil
}

// GetChange reads one change; *ChangeError BW-CHANGE-001 when there is none.
func (s *Store) GetChange(ctx context.Context, id ChangeID) (Change, error) {
	return oneChange(ctx, s.pool, id)
}

func oneChange(ctx context.Context, q querier, id ChangeID) (Change, error) {
	list, err := readChanges(ctx, q, "reading change "+id.String(), sqlChange, uuid.UUID(id))
	if err != nil {
		return Change{}, err
	}
	if len(list) == 0 {
		return Change{}, noChange(id)
	}
	return list[0], nil
}

// LiveChanges gives the changes of a machine that may still be applied, oldest first.
func (s *Store) LiveChanges(ctx context.Context, machineID uuid.UUID) ([]Change, error) {
	return readChanges(ctx, s.pool, "reading the machine's changes", sqlChangesLive, machineID)
}

// ChangeFilter narrows ListChanges; zero fields do not narrow.
type ChangeFilter struct {
	States    []ChangeState
	MachineID uuid.UUID
	Set       string
	Requester policy.Person
	// After is the last change of the page before.
	After ChangeID
	// Limit is 50 when zero, at most 1000.
	Limit int
}

// ListChanges gives changes, newest first.
func (s *Store) ListChanges(ctx context.Context, f ChangeFilter) ([]Change, error) {
	if f.Limit <= 0 {
		f.Limit = 50
	}
	states := make([]string, 0, len(f.States))
	for _, state := range f.States {
		states = append(states, string(state))
	}
	sql := sqlChanges
	if len(f.States) > 0 && !slices.ContainsFunc(f.States, func(s ChangeState) bool { return !s.Live() }) {
		sql = sqlChangesListLive // by their own index: what has ended costs nothing
	}
	return readChanges(ctx, s.pool, "listing changes", sql, states, f.MachineID, f.Set,
		f.Requester.Issuer, f.Requester.Subject, uuid.UUID(f.After), min(f.Limit, 1000))
}

// GetApproval reads one approval; ErrNotFound when there is none.
func (s *Store) GetApproval(ctx context.Context, id ApprovalID) (Approval, error) {
	rows, err := s.pool.Query(ctx, sqlApproval, uuid.UUID(id))
	if err != nil {
		return Approval{}, sqlError("reading an approval", err)
	}
	a, err := pgx.CollectExactlyOneRow(rows, scanApproval)
	if err != nil {
		return Approval{}, named(sqlError("reading approval "+id.String(), err), "there is no approval "+id.String())
	}
	return a, nil
}

// GetReview reads what an approver looks at; ErrNotFound when there is no such change.
func (s *Store) GetReview(ctx context.Context, id ChangeID) (Review, error) {
	var raw [3][]byte
	var r Review
	if err := s.pool.QueryRow(ctx, sqlChangeReview, uuid.UUID(id)).Scan(&raw[0], &raw[1], &raw[2]); err != nil {
		return Review{}, sqlError("reading the differences of "+id.String(), err)
	}
	for i, into := range []any{&r.Changes, &r.Discards, &r.Warnings} {
		if err := json.Unmarshal(raw[i], into); err != nil {
			return Review{}, fmt.Errorf("reading the differences of %s: %w", id, err)
		}
	}
	return r, nil
}

// Sealed reads the sealed bytes; ErrNotFound once they were dropped.
func (s *Store) Sealed(ctx context.Context, id ChangeID) ([]byte, error) {
	var sealed []byte
	if err := s.pool.QueryRow(ctx, sqlSealed, uuid.UUID(id)).Scan(&sealed); err != nil {
		return nil, sqlError("reading the sealed bytes of "+id.String(), err)
	}
	return sealed, nil
}

// ChangeStep is one state a change has had.
type ChangeStep struct {
	State ChangeState
	At    time.Time
	// By is who brought it there; the zero value is the gateway itself.
	By          policy.Person
	Reason      string
	OvertakenBy string
	AttemptID   uuid.UUID
	EntryID     uuid.UUID
}

// ChangeSteps gives every state the change has had, in order.
func (s *Store) ChangeSteps(ctx context.Context, id ChangeID) ([]ChangeStep, error) {
	rows, err := s.pool.Query(ctx, sqlChangeSteps, uuid.UUID(id))
	if err != nil {
		return nil, unavailable("reading the states of a change", err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (ChangeStep, error) {
		var c ChangeStep
		var attempt, entry *uuid.UUID
		err := row.Scan(&c.State, &c.At, &c.By.Issuer, &c.By.Subject, &c.Reason, &c.OvertakenBy, &attempt, &entry)
		if attempt != nil {
			c.AttemptID = *attempt
		}
		if entry != nil {
			c.EntryID = *entry
		}
		return c, err
	})
	if err != nil {
		return nil, unavailable("reading the states of a change", err)
	}
	return out, nil
}
