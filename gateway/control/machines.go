package control

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"bronzeward/audit"
	"bronzeward/policy"
)

// scanMachine reads the columns every machine query gives, in their order.
func scanMachine(row pgx.Row, m *Machine) error {
	var (
		o       Observed
		at, beg *time.Time
		serial  *int64
		port    int32
		text    [10]*string
		set     standing
	)
	if err := row.Scan(&m.ID, &m.Name, &m.Cluster, &m.Role, &port, &m.Labels, &m.Serial,
		&m.NodeID, &m.ClusterID, &m.SMBIOS, &m.PinnedAt, &m.ActiveDigest, &m.PersistentDigest, &m.Addresses,
		&at, &beg, &serial, &text[0], &text[1], &text[2], &text[3], &text[4], &text[5],
		&text[6], &text[7], &text[8], &text[9],
		&set.freeze, &set.by[0], &set.by[1], &set.why[0], &set.at[0], &set.entry[0],
		&set.by[2], &set.by[3], &set.why[1], &set.at[1], &set.entry[1]); err != nil {
		return err
	}
	set.fill(m)
	m.Port = uint16(port) //nolint:gosec // machines_port keeps it within 1 and 65535
	if at == nil {
		return nil
	}
	o.RecordedAt, o.BeganAt, o.Serial = *at, *beg, *serial
	o.Identity = Identity{NodeID: *text[0], ClusterID: *text[1], SMBIOS: *text[2]}
	o.Version, o.Stage, o.Type = *text[3], *text[4], *text[5]
	o.Active, o.Persistent, o.ActiveVersion, o.PersistentVersion = *text[6], *text[7], *text[8], *text[9]
	m.Observed = &o
	return nil
}

// standing is what a machine's row is joined to of what people set: the freeze that stands and
// the retirement. All of it is null where there is none.
type standing struct {
	freeze *uuid.UUID
	by     [4]*string // issuer and subject of the freeze, and of the retirement
	why    [2]*string
	at     [2]*time.Time
	entry  [2]*uuid.UUID
}

func (s *standing) fill(m *Machine) {
	if s.freeze != nil {
		m.Frozen = &Freeze{
			ID: *s.freeze, MachineID: m.ID, By: policy.Person{Issuer: *s.by[0], Subject: *s.by[1]},
			Reason: *s.why[0], Since: *s.at[0], EntryID: *s.entry[0],
		}
	}
	if s.at[1] != nil {
		m.Retired = &Retirement{
			By: policy.Person{Issuer: *s.by[2], Subject: *s.by[3]}, Reason: *s.why[1], At: *s.at[1], EntryID: *s.entry[1],
		}
	}
}

// GetMachine reads one machine by name; ErrNotFound when there is none. The database is not
// asked for what no machine can be called: its log would keep it, and it may be a token that
// somebody wrote where a name belongs.
func (s *Store) GetMachine(ctx context.Context, name string) (Machine, error) {
	var m Machine
	if !machineName.MatchString(name) {
		return m, fmt.Errorf("reading a machine: what was asked for is no name: %w", ErrNotFound)
	}
	if err := scanMachine(s.pool.QueryRow(ctx, sqlMachineByName, name), &m); err != nil {
		return Machine{}, named(sqlError(fmt.Sprintf("reading machine %q", clip(name)), err), fmt.Sprintf("there is no machine %q", clip(name)))
	}
	return m, nil
}

// Machine reads one machine by id, its serial current; ErrNotFound when there is none.
func (s *Store) Machine(ctx context.Context, id uuid.UUID) (*Machine, error) {
	var m Machine
	if err := scanMachine(s.pool.QueryRow(ctx, sqlMachine, id), &m); err != nil {
		return nil, sqlError("reading machine "+id.String(), err)
	}
	return &m, nil
}

// ListMachines reads all machines, by name.
func (s *Store) ListMachines(ctx context.Context) ([]Machine, error) {
	return listMachines(ctx, s.pool)
}

func listMachines(ctx context.Context, q querier) ([]Machine, error) {
	rows, err := q.Query(ctx, sqlMachines)
	if err != nil {
		return nil, unavailable("listing machines", err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Machine, error) {
		var m Machine
		err := scanMachine(row, &m)
		return m, err
	})
	if err != nil {
		return nil, unavailable("listing machines", err)
	}
	return out, nil
}

// Serial notes the machine's serial before evidence is read; Admit compares it.
func (s *Store) Serial(ctx context.Context, machine uuid.UUID) (int64, error) {
	var serial int64
	if err := s.pool.QueryRow(ctx, sqlSerial, machine).Scan(&serial); err != nil {
		return 0, sqlError("noting the serial", err)
	}
	return serial, nil
}

// AddMachine adds one machine, and its cluster when that is new (with a rollout limit of
// one). The entry's machine fields are filled. ErrInvalid joins what is wrong with it,
// ErrConflict names the name or the address that is taken, in whichever cluster.
func (s *Store) AddMachine(ctx context.Context, n NewMachine, act Act) (Machine, audit.Receipt, error) {
	var added Machine
	n, err := n.normalize()
	if err != nil {
		return Machine{}, audit.Receipt{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	receipt, err := s.act(ctx, exclusive, act, func(tx pgx.Tx, _ Stamp, entry *audit.Entry) error {
		id, err := insertMachine(ctx, tx, n)
		if err != nil {
			return err
		}
		entry.MachineID, entry.MachineName, entry.Cluster = id, n.Name, n.Cluster
		added, err = machineByID(ctx, tx, id)
		return err
	})
	if err != nil {
		return Machine{}, receipt, err
	}
	return added, receipt, nil
}

// maxImport bounds one import, so that its transaction holds the exclusive lock briefly.
const maxImport = 5000

// ImportMachines adds all or none of them, under one entry. All problems are joined: those of
// the rows, names and addresses given twice, and those that are taken already.
func (s *Store) ImportMachines(ctx context.Context, list []NewMachine, act Act) (audit.Receipt, error) {
	if len(list) == 0 || len(list) > maxImport {
		return audit.Receipt{}, fmt.Errorf("%w: 1 to %d machines at a time, not %d", ErrInvalid, maxImport, len(list))
	}
	var problems []error
	names, spots := map[string]bool{}, map[netip.Addr]string{}
	clean := make([]NewMachine, 0, len(list))
	for _, n := range list {
		n, err := n.normalize()
		if err != nil {
			problems = append(problems, err)
		}
		if names[n.Name] {
			problems = append(problems, fmt.Errorf("machine %q: the name is given twice", clip(n.Name)))
		}
		names[n.Name] = true
		for _, a := range n.Addresses {
			if other, taken := spots[a]; taken {
				problems = append(problems, fmt.Errorf("machine %q: address %s is %q's too", clip(n.Name), a, clip(other)))
			}
			spots[a] = n.Name
		}
		clean = append(clean, n)
	}
	return s.act(ctx, exclusive, act, func(tx pgx.Tx, _ Stamp, _ *audit.Entry) error {
		// Read within the act: a repetition with the same key has been answered before this.
		present, err := listMachines(ctx, tx)
		if err != nil {
			return err
		}
		problems := slices.Clone(problems)
		for _, m := range present {
			if names[m.Name] {
				problems = append(problems, fmt.Errorf("machine %q: it is there already", m.Name))
			}
			for _, a := range m.Addresses {
				if other, taken := spots[a]; taken {
					problems = append(problems, fmt.Errorf("machine %q: address %s is %q's already", clip(other), a, m.Name))
				}
			}
		}
		if len(problems) > 0 {
			return fmt.Errorf("%w: %w", ErrInvalid, errors.Join(problems...))
		}
		for _, n := range clean {
			if _, err := insertMachine(ctx, tx, n); err != nil {
				return err
			}
		}
		return nil
	})
}

func insertMachine(ctx context.Context, tx pgx.Tx, n NewMachine) (uuid.UUID, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return uuid.Nil, fmt.Errorf("making a machine id: %w", err)
	}
	b := &pgx.Batch{}
	b.Queue(sqlClusterAdd, n.Cluster)
	b.Queue(sqlMachineAdd, id, n.Name, n.Cluster, n.Role, int32(n.Port), labels(n.Labels))
	queueAddresses(b, n.Cluster, id, n.Addresses)
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return uuid.Nil, sqlError(fmt.Sprintf("adding machine %q", n.Name), err)
	}
	return id, nil
}

func queueAddresses(b *pgx.Batch, cluster string, id uuid.UUID, addresses []netip.Addr) {
	for i, a := range addresses {
		b.Queue(sqlAddressAdd, cluster, netip.PrefixFrom(a, a.BitLen()), id, int32(i)) //nolint:gosec // at most maxAddresses
	}
}

// labels is never null in the row.
func labels(l map[string]string) map[string]string {
	if l == nil {
		return map[string]string{}
	}
	return l
}

// MachineUpdate replaces what a person may change about a machine.
type MachineUpdate struct {
	Addresses []netip.Addr
	Port      uint16 // DefaultPort when zero
	Labels    map[string]string
}

// UpdateMachine replaces addresses, port and labels. It moves the serial: evidence read at
// the old addresses judges nothing. ErrConflict names an address that is another machine's.
func (s *Store) UpdateMachine(ctx context.Context, name string, u MachineUpdate, act Act) (audit.Receipt, error) {
	addresses, err := canonicalAddresses(u.Addresses)
	if err := errors.Join(err, checkLabels(u.Labels)); err != nil {
		return audit.Receipt{}, fmt.Errorf("%w: machine %q: %w", ErrInvalid, clip(name), err)
	}
	if u.Port == 0 {
		u.Port = DefaultPort
	}
	return s.act(ctx, exclusive, act, func(tx pgx.Tx, _ Stamp, entry *audit.Entry) error {
		m, err := lockMachine(ctx, tx, name, entry)
		if err != nil {
			return err
		}
		b := &pgx.Batch{}
		b.Queue(sqlAddressesRemove, m.ID)
		b.Queue(sqlMachineUpdate, m.ID, int32(u.Port), labels(u.Labels))
		queueAddresses(b, m.Cluster, m.ID, addresses)
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return sqlError(fmt.Sprintf("updating machine %q", name), err)
		}
		if m.Port != u.Port || !slices.Equal(m.Addresses, addresses) {
			return overtakeAll(ctx, tx, m.ID, entry.ID, "the machine's addresses were changed")
		}
		return nil
	})
}

// lockMachine reads the machine FOR UPDATE by name and fills the entry's machine fields.
// ErrRetired for one that takes no act any more.
func lockMachine(ctx context.Context, tx pgx.Tx, name string, entry *audit.Entry) (Machine, error) {
	var m Machine
	if err := scanMachine(tx.QueryRow(ctx, sqlMachineByNameForUpdate, name), &m); err != nil {
		return Machine{}, named(sqlError(fmt.Sprintf("locking machine %q", clip(name)), err), fmt.Sprintf("there is no machine %q", clip(name)))
	}
	entry.MachineID, entry.MachineName, entry.Cluster, entry.NodeID = m.ID, m.Name, m.Cluster, m.NodeID
	return m, m.InService("acting on")
}
