package control

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"bronzeward/policy"
)

// What has ended says so to every act, and what it ended as; nothing of it moves.
func TestEveryActOnWhatHasEnded(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	c := approved(t, s, "w1")
	acts := map[string]func() error{
		"approving": func() error { _, err := approveAs(t, s, cleo, c); return err },
		"rejecting": func() error {
			_, err := s.Reject(t.Context(), c.ID, "no", by(cleo, "changes.reject"))
			return err
		},
		"cancelling": func() error {
			_, err := s.Cancel(t.Context(), c.ID, "no", by(anna, "changes.cancel"))
			return err
		},
		"revoking its approval": func() error {
			_, err := s.RevokeApproval(t.Context(), c.Approvals[0].ID, "no", by(bea, "approvals.revoke"))
			return err
		},
	}
	attempt := newID(t)
	says := map[ChangeState]string{
		ChangeSpent: "attempt " + attempt.String() + " spent it", ChangeSuperseded: "it has " + digestC, ChangeCancelled: "because",
		ChangeRejected: "because", ChangeExpired: "because", ChangeRevoked: "because",
	}
	for _, state := range ChangeStates() {
		if state.Live() {
			continue
		}
		t.Run(string(state), func(t *testing.T) {
			w.exec(t, moveRow, uuid.UUID(c.ID), string(state), attempt)
			w.exec(t, "update control.change_states set overtaken_by = $1", map[bool]string{true: digestC}[state == ChangeSuperseded])
			before := change(t, s, c.ID)
			for name, act := range acts {
				err := act()
				if wantCode(t, err, "BW-CHANGE-002"); !strings.Contains(err.Error(), "is "+string(state)) || !strings.Contains(err.Error(), says[state]) {
					t.Errorf("%s says %v, want %q", name, err, says[state])
				}
			}
			_, err := spendOf(t, s, boris, c, asksFor(1))
			wantErr(t, err, ErrMoved)
			if diff := cmp.Diff(before, change(t, s, c.ID)); diff != "" {
				t.Error(diff)
			}
			if n, err := s.ExpireChanges(t.Context()); err != nil || n != 0 {
				t.Errorf("%d were marked, %v", n, err)
			}
		})
	}
	if n := w.count(t, "select count(*) from control.attempts"); n != 0 {
		t.Errorf("%d attempts", n)
	}
}

// A set is approved in one act: one approval and one entry for each, all or none.
func TestASetIsApprovedTogether(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 3)
	var list []ApproveOne
	for _, name := range []string{"w3", "w1", "w2"} {
		n := proposal(get(t, s, name))
		n.Set = "blue"
		list = append(list, ApproveOne{ID: propose(t, s, anna, n).ID, Digest: digestA})
	}
	entries := w.count(t, "select count(*) from audit.entries")
	bad := append([]ApproveOne{}, list...)
	bad[2].Digest = digestC
	_, err := s.Approve(t.Context(), approver(bea), bad, by(bea, "changes.approve"))
	wantCode(t, err, "BW-CHANGE-003")
	_, err = s.Approve(t.Context(), approver(bea), append(list, list[0]), by(bea, "changes.approve"))
	wantErr(t, err, ErrInvalid)
	_, err = s.Approve(t.Context(), approver(bea), append(list, ApproveOne{ID: ChangeID(newID(t)), Digest: digestA}), by(bea, "changes.approve"))
	wantCode(t, err, "BW-CHANGE-001")
	if n := w.count(t, "select count(*) from control.approvals") + w.count(t, "select count(*) from audit.entries") - entries; n != 0 {
		t.Errorf("%d rows are left of acts that were refused", n)
	}
	got, err := s.Approve(t.Context(), approver(bea), list, by(bea, "changes.approve"))
	if err != nil || len(got) != 3 {
		t.Fatalf("%d approvals, %v", len(got), err)
	}
	for i, a := range got {
		if a.ChangeID != list[i].ID {
			t.Errorf("approval %d is of %s, want the order given", i, a.ChangeID)
		}
		wantState(t, s, a.ChangeID, ChangeApproved)
		n := w.count(t, "select count(*) from audit.entries where id = $1 and change_id = $2 and digest = $3", a.EntryID, a.ChangeID.String(), digestA)
		if n != 1 {
			t.Errorf("no entry names %s", a.ChangeID)
		}
	}
	live, err := s.ListChanges(t.Context(), ChangeFilter{Set: "blue", States: []ChangeState{ChangeApproved}})
	if err != nil || len(live) != 3 || live[0].ID != list[2].ID {
		t.Errorf("the set is %v, %v; want the newest first", live, err)
	}
}

// An approver's own change, and the spender's: marked as such, and counted where data allow it.
func TestSelfApprovalIsByDataAndMarked(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	n := proposal(get(t, s, "w1"))
	c := propose(t, s, bea, n)
	own := approve(t, s, bea, c)
	if diff := cmp.Diff([]string{"requester"}, own.Self); diff != "" {
		t.Error(diff)
	}
	got := wantState(t, s, c.ID, ChangeWaiting)
	byData := policy.Quorum{Required: 1, Groups: []string{"approvers"}, SelfApproval: true}
	for _, row := range []struct {
		q       policy.Quorum
		spender policy.Person
		want    int
	}{{asksFor(1), anna, 0}, {byData, anna, 1}, {byData, bea, 1}, {asksFor(1), bea, 0}} {
		if n := len(got.Counting(row.q, row.spender, got.Epoch)); n != row.want {
			t.Errorf("%+v by %s: %d count, want %d", row.q, row.spender.Subject, n, row.want)
		}
	}
	if diff := cmp.Diff([]string{"requester", "spender"}, got.Selves(bea, bea)); diff != "" {
		t.Error(diff)
	}
	if _, err := spendOf(t, s, bea, c, byData); err != nil {
		t.Errorf("allowed by data: %v", err)
	}
	wantState(t, s, c.ID, ChangeSpent)
}

// Losing a group takes no approval back: it is shown beside it, by the freshest proof seen.
func TestLosingAGroupIsShown(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	c := approved(t, s, "w1")
	if got := change(t, s, c.ID).Approvals[0]; got.GroupsNow != nil {
		t.Errorf("nobody has seen bea, and her groups are %v", got.GroupsNow)
	}
	now := time.Now()
	for _, saw := range []struct {
		groups []string
		ends   time.Time
	}{{[]string{"viewers"}, now.Add(time.Hour)}, {[]string{"approvers"}, now}} {
		if err := s.SawPerson(t.Context(), bea, "human", saw.groups, saw.ends); err != nil {
			t.Fatal(err)
		}
	}
	got := wantState(t, s, c.ID, ChangeApproved)
	if diff := cmp.Diff([]string{"viewers"}, got.Approvals[0].GroupsNow); diff != "" {
		t.Error(diff)
	}
	if _, err := spendOf(t, s, anna, c, asksFor(1)); err != nil {
		t.Errorf("the approval is gone: %v", err)
	}
}

// Read page by page, the timeline is what it is read at once, also where one decision took a
// change through several states; and they are in their order.
func TestTheTimelineIsWholePageByPage(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	m := get(t, s, "w1")
	n := proposal(m)
	n.Asked = asksFor(0)
	c := propose(t, s, anna, n)
	approve(t, s, bea, c)
	if _, err := s.RevokeApproval(t.Context(), change(t, s, c.ID).Approvals[0].ID, "no", by(admin, "approvals.revoke")); err != nil {
		t.Fatal(err)
	}
	if _, err := spendOf(t, s, anna, c, asksFor(0)); err != nil {
		t.Fatal(err)
	}
	ok(t)(s.RecordObservation(t.Context(), "w1", seen(m, digestB, digestB), by(admin, "machines.observe")))
	whole, err := s.Timeline(t.Context(), m.ID, TimelineItem{}, 100)
	if err != nil {
		t.Fatal(err)
	}
	var pages []TimelineItem
	for before := (TimelineItem{}); ; {
		page, err := s.Timeline(t.Context(), m.ID, before, 1)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		before = page[0]
		pages = append(pages, before)
	}
	if diff := cmp.Diff(whole, pages); diff != "" {
		t.Error(diff)
	}
	var states []string
	for _, item := range whole {
		if item.Kind == "change" {
			states = append(states, item.State)
		}
	}
	if diff := cmp.Diff([]string{"spent", "approved", "waiting"}, states); diff != "" {
		t.Error(diff)
	}
}
