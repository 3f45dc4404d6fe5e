package control

import (
	"reflect"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// bound is one field of a Binding, by its path.
type bound struct {
	path  string
	index []int
}

// boundFields are all fields of a Binding, those of nested structs one by one.
func boundFields(t reflect.Type, path string, index []int) []bound {
	var out []bound
	for i := range t.NumField() {
		f := t.Field(i)
		at := append(append([]int{}, index...), i)
		if f.Type.Kind() == reflect.Struct {
			out = append(out, boundFields(f.Type, path+f.Name+".", at)...)
			continue
		}
		out = append(out, bound{path: path + f.Name, index: at})
	}
	return out
}

// alter makes the one field another value of its type.
func (f bound) alter(t testing.TB, b *Binding) {
	t.Helper()
	switch v := reflect.ValueOf(b).Elem().FieldByIndex(f.index); v.Interface().(type) {
	case uuid.UUID:
		v.Set(reflect.ValueOf(newID(t)))
	case DriftID:
		v.Set(reflect.ValueOf(DriftID(newID(t))))
	case time.Duration:
		v.SetInt(v.Int() + int64(time.Minute))
	case int64:
		v.SetInt(v.Int() + 1)
	case bool:
		v.SetBool(!v.Bool())
	case string:
		v.SetString(v.String() + "x")
	default:
		t.Fatalf("Binding.%s is a %s: say here how to change it", f.path, v.Type())
	}
}

var allBound = boundFields(reflect.TypeFor[Binding](), "", nil)

// Any difference is another change: every field is in the key, also where one text goes over
// into the next.
func TestEveryBoundFieldMakesAnotherKey(t *testing.T) {
	seen := map[string]string{}
	note := func(what string, b Binding) {
		if twin, taken := seen[b.Key()]; taken {
			t.Errorf("%s and %s have one key", what, twin)
		}
		seen[b.Key()] = what
	}
	base := Binding{
		MachineID: newID(t), Identity: worker(1), Kind: "apply", Mode: "no-reboot", TryTimeout: time.Minute,
		Digest: digestA, Size: 4, Base: digestB, Persistent: digestC, Epoch: newID(t),
	}
	note("the binding", base)
	for _, f := range allBound {
		b := base
		f.alter(t, &b)
		note("another "+f.path, b)
	}
	moved := base
	moved.Identity.NodeID, moved.Identity.ClusterID = base.Identity.NodeID+base.Identity.ClusterID, ""
	note("a moved border", moved)
	swapped := base
	swapped.Base, swapped.Persistent = base.Persistent, base.Base
	note("active and persistent swapped", swapped)
	if twice := base; seen[twice.Key()] != "the binding" {
		t.Error("one binding has two keys")
	}
}

// rowsOfBinding alters each bound field of a change's row, behind everybody's back; differs is
// the bad end state, an attempt that stands on a change for something else.
var rowsOfBinding = map[string]struct{ alter, differs string }{
	"MachineID":          {"machine_id = (select id from control.machines where name = 'w2')", "machine_id <> a.machine_id"},
	"Identity.NodeID":    {"node_id = 'x'", "node_id <> a.node_id"},
	"Identity.ClusterID": {"talos_cluster_id = 'x'", "talos_cluster_id <> a.talos_cluster_id"},
	"Identity.SMBIOS":    {"smbios = 'x'", "smbios <> a.smbios"},
	"Kind":               {"kind = 'revert'", "kind <> 'apply'"},
	"Mode":               {"mode = 'try'", "mode <> a.mode"},
	"TryTimeout":         {"try_timeout = interval '1 minute'", "try_timeout <> interval '0'"},
	"Digest":             {"digest = 'x'", "digest <> a.digest"},
	"Size":               {"size = size + 1", "size <> a.size"},
	"Base":               {"base_active = 'x'", "base_active <> a.base_active"},
	"Persistent":         {"base_persistent = 'x'", "base_persistent <> a.base_persistent"},
	"Drift":              {"drift_id = gen_random_uuid()", "drift_id is not null"},
	"Epoch":              {"epoch = gen_random_uuid()", "epoch <> a.epoch"},
}

// An approval of one thing sends nothing else (I6): Go refuses every single difference, the
// attempt's row refuses it where Go does not, and with both out of the way it goes out.
func TestAnApprovalIsForEveryBoundField(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 2)
	c := approved(t, s, "w1")
	m := get(t, s, "w1")
	w.exec(t, "alter table control.changes drop constraint changes_mode, drop constraint changes_try_timeout, drop constraint changes_drift_named")
	w.exec(t, "create table public.kept as select * from control.changes")
	unguarded := func(t *testing.T) error {
		return pgx.BeginFunc(t.Context(), s.pool, func(tx pgx.Tx) error {
			return openAttempt(t.Context(), tx, attemptOn(t, s, m, c), MinSettleFloor)
		})
	}
	for _, f := range allBound {
		t.Run(f.path, func(t *testing.T) {
			_, err := s.Admit(t.Context(), apply(m, anna), func(l Locked) Judgement {
				f.alter(t, &l.change(c.ID).Binding)
				return spending(c.ID, asksFor(1))(l)
			})
			wantGuard(t, err, "attempts_change_binding")

			row := rowsOfBinding[f.path]
			if row.alter == "" {
				t.Fatalf("Binding.%s is new: say in rowsOfBinding which column has it", f.path)
			}
			w.exec(t, "update control.changes set "+row.alter)
			w.exec(t, "update control.approvals set digest = (select digest from control.changes), epoch = (select epoch from control.changes)")
			wantGuard(t, unguarded(t), "attempts_change_binding")

			w.exec(t, "alter table control.attempts disable trigger attempts_approved, disable trigger attempts_drift")
			if err := unguarded(t); err != nil {
				t.Fatalf("control: with no guard at all: %v", err)
			}
			n := w.count(t, "select count(*) from control.attempts a join control.changes c on c.id = a.change_id where a.state = 'open' and c."+row.differs)
			if n != 1 {
				t.Error("control: the bad end state did not come, so the guards prove nothing")
			}
			w.exec(t, "alter table control.attempts enable trigger attempts_approved, enable trigger attempts_drift")
			for _, back := range []string{
				"delete from control.attempts", "delete from control.changes", "insert into control.changes select * from public.kept",
				"update control.approvals set digest = (select digest from control.changes), epoch = (select epoch from control.changes)",
				"update control.machines set serial = serial - 1 where name = 'w1'",
			} {
				w.exec(t, back)
			}
		})
	}
	t.Run("control: nothing differs", func(t *testing.T) {
		a, err := spendOf(t, s, anna, c, asksFor(1))
		if err != nil {
			t.Fatal(err)
		}
		if got := wantState(t, s, c.ID, ChangeSpent); got.AttemptID != a.ID || got.By != anna {
			t.Errorf("spent by attempt %s of %v", got.AttemptID, got.By)
		}
	})
}

// attemptOn is the attempt of anna that spends c on m, past all guards in Go.
func attemptOn(t testing.TB, s *Store, m Machine, c Change) *Attempt {
	t.Helper()
	snap, err := s.Refresh(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	now := snap.Now()
	return &Attempt{
		ID: newID(t), EntryID: newID(t), MachineID: m.ID, Cluster: m.Cluster, Owner: s.owner(snap.Epoch), Caller: anna,
		Mode: "no-reboot", Digest: digestA, Base: digestB, Persistent: digestB, Identity: m.Identity, ChangeID: c.ID,
		OpenedAt: now, SendBy: now.Add(SendWithin), LeaseUntil: now.Add(time.Minute), TransportDeadline: now.Add(time.Minute),
		liveType: "worker", stage: "running", minor: "1.13", size: 4, quorum: asksFor(1),
	}
}
