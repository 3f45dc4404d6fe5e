package control

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"bronzeward/audit"
)

func addrs(list ...string) []netip.Addr {
	var out []netip.Addr
	for _, a := range list {
		out = append(out, netip.MustParseAddr(a))
	}
	return out
}

func newID(t testing.TB) uuid.UUID {
	t.Helper()
	id, err := uuid.NewV7()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestNewMachineIsRefusedWithEveryProblem(t *testing.T) {
	rows := []struct {
		name string
		in   NewMachine
		want []string
	}{
		{
			"all at once",
			NewMachine{Name: "Bad Name", Cluster: "-", Role: "king", Labels: map[string]string{"": "x"}},
			[]string{"a name is", "cluster", "role", "addresses", "label"},
		},
		{"an address as a name", NewMachine{Name: "10.0.0.1", Cluster: "lab", Addresses: addrs("10.0.0.1")}, []string{"must not read as an address"}},
		{"a zone", NewMachine{Name: "a", Cluster: "lab", Addresses: addrs("fe80::1%eth0")}, []string{"zone"}},
		{
			"nobody's address",
			NewMachine{Name: "a", Cluster: "lab", Addresses: addrs("0.0.0.0", "::", "224.0.0.1", "255.255.255.255")},
			[]string{"0.0.0.0", "::", "224.0.0.1", "255.255.255.255"},
		},
		{"one address twice, once mapped", NewMachine{Name: "a", Cluster: "lab", Addresses: addrs("10.0.0.1", "::ffff:10.0.0.1")}, []string{"given twice"}},
		{"a label with a NUL", NewMachine{Name: "a", Cluster: "lab", Addresses: addrs("10.0.0.1"), Labels: map[string]string{"k": "\x00"}}, []string{"label"}},
		{"a label that is not UTF-8", NewMachine{Name: "a", Cluster: "lab", Addresses: addrs("10.0.0.1"), Labels: map[string]string{"k": "\xff"}}, []string{"label"}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			_, err := row.in.normalize()
			for _, want := range row.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("the error does not say %q: %v", want, err)
				}
			}
		})
	}
}

func TestMachinesAreKeptAsGiven(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 0)
	added, receipt, err := s.AddMachine(t.Context(), NewMachine{
		Name: "w1", Cluster: "lab", Addresses: addrs("fd00::1", "::ffff:10.5.0.2"), Labels: map[string]string{"rack": "7"},
	}, by(admin, "machines.add"))
	if err != nil {
		t.Fatal(err)
	}
	want := Machine{
		ID: added.ID, Name: "w1", Cluster: "lab", Role: "worker", Addresses: addrs("fd00::1", "10.5.0.2"), Port: DefaultPort,
		Labels: map[string]string{"rack": "7"}, Serial: 1,
	}
	compare := cmp.Comparer(func(a, b netip.Addr) bool { return a == b })
	if diff := cmp.Diff(want, get(t, s, "w1"), compare); diff != "" {
		t.Error(diff)
	}
	if n := w.count(t, "select count(*) from audit.entries where id = $1 and machine_id = $2 and machine_name = 'w1'", receipt.ID, added.ID); n != 1 {
		t.Error("the entry does not name the machine")
	}
	if got, err := s.Machine(t.Context(), added.ID); err != nil || got.Name != "w1" {
		t.Errorf("reading by id: %v, %v", got, err)
	}

	ok(t)(s.UpdateMachine(t.Context(), "w1", MachineUpdate{Addresses: addrs("10.5.0.3"), Port: 1234}, by(admin, "machines.update")))
	got := get(t, s, "w1")
	if diff := cmp.Diff(addrs("10.5.0.3"), got.Addresses, compare); diff != "" || got.Port != 1234 || len(got.Labels) != 0 || got.Serial != 2 {
		t.Errorf("after the update: %+v", got)
	}
}

func TestAnAddressIsOneMachines(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	add := func(name, cluster, addr string) error {
		_, _, err := s.AddMachine(t.Context(), NewMachine{Name: name, Cluster: cluster, Addresses: addrs(addr)}, by(admin, "machines.add"))
		return err
	}
	wantErr(t, add("w1", "other", "10.7.0.1"), ErrConflict)
	if err := add("free", "other", "10.7.0.1"); err != nil {
		t.Fatal(err)
	}
	update := func(addr string) error {
		_, err := s.UpdateMachine(t.Context(), "free", MachineUpdate{Addresses: addrs(addr)}, by(admin, "machines.update"))
		return err
	}
	for what, err := range map[string]error{
		"added to its cluster":     add("x", "lab", "::ffff:10.5.0.2"),
		"added to another cluster": add("x", "other", "10.5.0.2"),
		"given to another machine": update("10.5.0.2"),
	} {
		if !errors.Is(err, ErrConflict) || !strings.HasSuffix(err.Error(), "already exists: 10.5.0.2") {
			t.Errorf("the address, %s: %v, want a conflict that names it", what, err)
		}
	}
	if got := get(t, s, "free"); got.Serial != 1 || got.Addresses[0] != addrs("10.7.0.1")[0] {
		t.Errorf("the refused update left %+v", got)
	}
	if n := w.count(t, "select count(*) from control.machine_addresses where address = '10.5.0.2'"); n != 1 {
		t.Errorf("%d machines have the address, want 1", n)
	}
	wantErr(t, func() error {
		_, err := s.UpdateMachine(t.Context(), "absent", MachineUpdate{Addresses: addrs("10.1.1.1")}, by(admin, "machines.update"))
		return err
	}(), ErrNotFound)
}

// Control: without the index, one machine gets a second row, in a cluster and under rules that
// are not its own.
func TestControlWithoutTheIndexOfAddresses(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	w.exec(t, "alter table control.machine_addresses drop constraint machine_addresses_pkey")
	_, _, err := s.AddMachine(t.Context(), NewMachine{Name: "shadow", Cluster: "other", Addresses: addrs("10.5.0.2")}, by(admin, "machines.add"))
	if err != nil {
		t.Fatal(err)
	}
	if n := w.count(t, "select count(distinct cluster) from control.machine_addresses where address = '10.5.0.2'"); n != 2 {
		t.Error("the bad end state did not come: the test above proves nothing")
	}
}

func TestAnImportIsAllOrNothing(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	list := []NewMachine{
		{Name: "i1", Cluster: "lab", Addresses: addrs("10.8.0.1")},
		{Name: "i2", Cluster: "other", Addresses: addrs("10.8.0.1")},
		{Name: "i1", Cluster: "lab", Addresses: addrs("10.8.0.3")},
		{Name: "w1", Cluster: "lab", Addresses: addrs("10.8.0.4")},
		{Name: "i5", Cluster: "lab", Addresses: addrs("10.5.0.2")},
		{Name: "i7", Cluster: "other", Addresses: addrs("::ffff:10.5.0.2")},
		{Name: "I6", Cluster: "lab", Addresses: addrs("10.8.0.6")},
	}
	_, err := s.ImportMachines(t.Context(), list, by(admin, "machines.import"))
	wantErr(t, err, ErrInvalid)
	for _, want := range []string{`"i2": address 10.8.0.1 is "i1"'s too`, `"i1": the name is given twice`, `"w1": it is there already`, `"i7": address 10.5.0.2 is "i5"'s too`, `address 10.5.0.2 is "w1"'s already`, `"I6": a name is`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %s:\n%v", want, err)
		}
	}
	if n := w.count(t, "select count(*) from control.machines"); n != 1 {
		t.Errorf("%d machines after a refused import, want 1", n)
	}
	ok(t)(s.ImportMachines(t.Context(), list[:1], by(admin, "machines.import")))
	if n := w.count(t, "select count(*) from control.machines"); n != 2 {
		t.Errorf("%d machines after an import, want 2", n)
	}
}

func TestAPinStays(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	_, err := s.PinMachine(t.Context(), "w1", worker(2), false, by(admin, "machines.pin"))
	wantErr(t, err, ErrConflict)
	if got := get(t, s, "w1").Identity; got != worker(1) {
		t.Fatalf("pinned to %+v", got)
	}
	before := get(t, s, "w1").Serial
	ok(t)(s.PinMachine(t.Context(), "w1", worker(2), true, by(admin, "machines.pin")))
	if got := get(t, s, "w1"); got.Identity != worker(2) || got.Serial != before+1 {
		t.Errorf("after the re-pin: %+v", got)
	}
	_, err = s.PinMachine(t.Context(), "w1", Identity{NodeID: "x"}, true, by(admin, "machines.pin"))
	wantErr(t, err, ErrInvalid)
}

func TestAnObservationIsKeptAndChangesNothing(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	before := get(t, s, "w1")
	version := authorityVersion(t, s)
	o := Observation{Began: time.Now(), Identity: worker(1), Version: "v1.13.6", Stage: "running", Type: "worker", Active: digestA, Persistent: digestB}
	ok(t)(s.RecordObservation(t.Context(), "w1", o, by(admin, "machines.observe")))
	got := get(t, s, "w1")
	if got.Observed == nil || got.Observed.Active != digestA || got.Observed.Persistent != digestB || got.Observed.Identity != worker(1) {
		t.Errorf("observed: %+v", got.Observed)
	}
	if got.Serial != before.Serial || got.ActiveDigest != "" {
		t.Error("an observation moved the machine")
	}
	if authorityVersion(t, s) != version {
		t.Error("an observation moved the authority version")
	}
	o.Stage = "a\x00b"
	_, err := s.RecordObservation(t.Context(), "w1", o, by(admin, "machines.observe"))
	wantErr(t, err, ErrInvalid)
}

func TestAnActWithoutAllowIsRecordedAndNotDone(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 0)
	version := authorityVersion(t, s)
	denied := Act{By: anna, Entry: func(Stamp) audit.Entry {
		return audit.Entry{Kind: audit.KindHTTP, Verdict: audit.Denied, Method: "machines.add"}
	}}
	_, receipt, err := s.AddMachine(t.Context(), NewMachine{Name: "w1", Cluster: "lab", Addresses: addrs("10.0.0.1")}, denied)
	var refused *RefusedError
	if !errors.As(err, &refused) || refused.Receipt.ID != receipt.ID {
		t.Fatalf("got %v", err)
	}
	if n := w.count(t, "select count(*) from audit.entries where id = $1 and verdict = 'deny'", receipt.ID); n != 1 {
		t.Error("the refusal is not recorded")
	}
	if n := w.count(t, "select count(*) from control.machines"); n != 0 {
		t.Error("the refused act was done")
	}
	if authorityVersion(t, s) != version {
		t.Error("the refused act moved the authority version")
	}
}

func TestARevokedPersonActsNoMore(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 0)
	revoked(t)(s.RevokeIdentity(t.Context(), anna, "left", by(admin, "identities.revoke")))
	_, _, err := s.AddMachine(t.Context(), NewMachine{Name: "w1", Cluster: "lab", Addresses: addrs("10.0.0.1")}, by(anna, "machines.add"))
	wantGuard(t, err, "caller_not_revoked")
	_, err = s.RevokeIdentity(t.Context(), anna, "again", by(admin, "identities.revoke"))
	wantErr(t, err, ErrConflict)
}

// Whatever is accepted is in canonical form, and nothing in it can upset the database.
func FuzzNewMachine(f *testing.F) {
	f.Add("w1", "lab", "worker", "10.5.0.2", "k", "v")
	f.Add("", "", "", "::ffff:10.5.0.2", "\x00", "\xff")
	f.Add("fe80--1", "a_b", "controlplane", "fe80::1%eth0", "topology.kubernetes.io/zone", "a b")
	f.Fuzz(func(t *testing.T, name, cluster, role, addr, key, value string) {
		in := NewMachine{Name: name, Cluster: cluster, Role: role, Labels: map[string]string{key: value}}
		if a, err := netip.ParseAddr(addr); err == nil {
			in.Addresses = []netip.Addr{a}
		}
		out, err := in.normalize()
		if err != nil {
			return
		}
		again, err := out.normalize()
		if err != nil || again.Name != out.Name || again.Addresses[0] != out.Addresses[0] {
			t.Errorf("not a fixed point: %+v, %v", again, err)
		}
		if !printable(out.Name+out.Cluster+out.Role+key+value) || out.Addresses[0].Zone() != "" || out.Addresses[0].Is4In6() || out.Port == 0 {
			t.Errorf("accepted: %+v", out)
		}
	})
}
