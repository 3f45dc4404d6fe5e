package control

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// ReplicaSilence is how long a replica may not be heard of before nobody knows what it has loaded.
const ReplicaSilence = 30 * time.Second

// ReplicaReport is what a replica tells of itself.
type ReplicaReport struct {
	// Process is the random id of the process; the instance is the Store's.
	Process uuid.UUID
	// Loaded is the law it has loaded, empty when none, and Counter of the activation it loaded it by.
	Loaded  string
	Counter int64
	// Wanted is the law that is live as far as it knows.
	Wanted string
	// FailedWhy is why it has not loaded that: for anybody to read, without values of anybody's.
	FailedWhy string
	// Version is the program's.
	Version string
	// Ahead is what it has compiled ahead.
	Ahead
	// Stopped is told last.
	Stopped bool
}

// Longest texts of a report; what is longer is cut.
const (
	mostFailedWhy = 2000
	mostVersion   = 128
)

// ReportReplica keeps what this replica tells of itself, in place of what it told before. It is one
// statement on its own, takes none of the locks, and nothing is decided by it.
func (s *Store) ReportReplica(ctx context.Context, r ReplicaReport) error {
	_, err := s.pool.Exec(ctx, sqlReplicaReport, s.cfg.Instance, r.Process, r.Loaded, r.Counter, r.Wanted,
		cut(r.FailedWhy, mostFailedWhy), cut(r.Version, mostVersion), r.Stopped,
		append([]string{}, r.Prepared...), append([]string{}, r.Preparing...), append([]string{}, r.Unprepared...))
	if err != nil {
		return sqlError("telling which law this replica has loaded", err)
	}
	return nil
}

// cut gives the first characters of a text.
func cut(text string, most int) string {
	if r := []rune(text); len(r) > most {
		return string(r[:most])
	}
	return text
}

// Replica is one as it last told.
type Replica struct {
	Instance string
	Process  uuid.UUID
	Loaded   string
	Counter  int64
	// LoadedAt is when it first told of that law; null when it has none.
	LoadedAt  *time.Time
	Wanted    string
	FailedWhy string
	Version   string
	Ahead
	StartedAt time.Time
	HeardAt   time.Time
	// Silent is how long ago that is. Like the times, it is by the database's clock.
	Silent time.Duration
}

// Heard is true when the replica told lately enough to be believed to be there.
func (r Replica) Heard() bool { return r.Silent <= ReplicaSilence }

// What is known of a replica and the live law.
const (
	ReplicaCurrent = "current"
	ReplicaLagging = "lagging"
	ReplicaSilent  = "silent"
)

// Agreement of the replicas on the live law.
const (
	AgreeYes     = "yes"
	AgreeNo      = "no"
	AgreeUnknown = "unknown"
)

// Replicas are those heard of within a day that did not say that they stop, with the live law of the
// same moment. A silent process is not among them when another one of its name has begun since.
type Replicas struct {
	// Live is empty when no law is.
	Live    string
	Counter int64
	List    []Replica
}

// Agree is AgreeNo when one that is heard has not loaded the live law; AgreeUnknown when one is
// silent, or none is heard; AgreeYes else.
func (r Replicas) Agree() string {
	if len(r.Lagging()) > 0 {
		return AgreeNo
	}
	for _, one := range r.List {
		if !one.Heard() {
			return AgreeUnknown
		}
	}
	if r.Live == "" || len(r.List) == 0 {
		return AgreeUnknown
	}
	return AgreeYes
}

// StateOf is ReplicaSilent when nobody knows, ReplicaLagging when it has not loaded the live law, else ReplicaCurrent.
func (r Replicas) StateOf(one Replica) string {
	switch {
	case !one.Heard():
		return ReplicaSilent
	case one.Loaded != r.Live:
		return ReplicaLagging
	}
	return ReplicaCurrent
}

// Lagging are those that are heard and have not loaded the live law; none while no law is live.
func (r Replicas) Lagging() (out []Replica) {
	for _, one := range r.List {
		if r.Live != "" && one.Heard() && one.Loaded != r.Live {
			out = append(out, one)
		}
	}
	return out
}

// Replicas reads them, by name and start; at most 1000.
func (s *Store) Replicas(ctx context.Context) (Replicas, error) {
	var out Replicas
	rows, err := collect(ctx, s, "listing the replicas", sqlReplicas, func(row pgx.CollectableRow) (r Replica, err error) {
		var started, heard *time.Time
		var silent float64
		err = row.Scan(&out.Live, &out.Counter, &r.Instance, &r.Process, &r.Loaded, &r.Counter, &r.LoadedAt, &r.Wanted, &r.FailedWhy,
			&r.Version, &started, &heard, &silent, &r.Prepared, &r.Preparing, &r.Unprepared)
		if started != nil && heard != nil {
			r.StartedAt, r.HeardAt, r.Silent = started.UTC(), heard.UTC(), time.Duration(silent*float64(time.Second))
		}
		return r, err
	}, ReplicaSilence)
	if err != nil {
		return Replicas{}, err
	}
	for _, r := range rows {
		if r.Instance != "" { // the one row without a replica names the live law alone
			out.List = append(out.List, r)
		}
	}
	return out, nil
}
