package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"time"

	"bronzeward/fixtures/world"
)

// replayWays are the two ways to the past, as the command is told them.
var replayWays = []struct{ name, flag string }{{"the database", "--direct"}, {"the gateway", "--gateway"}}

// replayRounds is how often the ways take turns.
const replayRounds = 3

// replays measures `policy replay` through the gateway beside the database, on the same records. Each round is of
// a command of its own, from its start to its end.
func (h *benchHouse) replays(ctx context.Context, o benchOptions) (string, error) {
	if _, err := h.recordedFacts(ctx); err != nil { // an apply there is, now
		return "", err
	}
	if out, err := h.Talosctl(ctx, "vera", "-n", h.small.name, "version"); err != nil {
		return "", fmt.Errorf("a read: %w\n%s", err, out)
	}
	t := &table{head: []string{"replay of", "decisions", "read from", "a second", "a second of the command's processor time", "processor time of the gateway per decision"}}
	for _, kind := range []struct {
		name, method string
		n            int
	}{{"reads", "/machine.MachineService/Version", o.times(20_000)}, {"applies of 15 KiB", benchApply, o.times(5_000)}} {
		since, until, err := h.copies(ctx, kind.method, kind.n)
		if err != nil {
			return "", fmt.Errorf("copying an entry of %s: %w", kind.method, err)
		}
		wall, own, gate := make([]time.Duration, len(replayWays)), make([]time.Duration, len(replayWays)), make([]time.Duration, len(replayWays))
		for range replayRounds {
			for i, way := range replayWays {
				before, _, err := processTime(h.Gateways["gateway-1"].Pid(), false)
				if err != nil {
					return "", err
				}
				began := time.Now()
				used, err := h.replayOnce(ctx, way.flag, since, until, kind.n)
				if err != nil {
					return "", err
				}
				wall[i] += time.Since(began)
				own[i] += used
				after, _, err := processTime(h.Gateways["gateway-1"].Pid(), false)
				if err != nil {
					return "", err
				}
				gate[i] += after - before
			}
		}
		all := float64(kind.n * replayRounds)
		for i, way := range replayWays {
			t.add(kind.name, fmt.Sprint(kind.n), way.name, fmt.Sprintf("%.0f", all/wall[i].Seconds()), fmt.Sprintf("%.0f", all/own[i].Seconds()),
				fmt.Sprintf("%.0f µs", float64(gate[i].Microseconds())/all))
		}
	}
	return "### The past judged again\n\n" + t.String(), nil
}

// copies writes n entries like the last allowed one of a method, each of a second of its own, and gives what they lie between.
func (h *benchHouse) copies(ctx context.Context, method string, n int) (since, until string, err error) {
	err = h.db.QueryRow(ctx, `with one as (
		select e.*, convert_from(e.record, 'UTF8') as text, convert_from(e.record, 'UTF8')::jsonb #>> '{facts,now}' as now
		from audit.entries e where method = $1 and verdict = 'allow' order by recorded_at desc, id desc limit 1
	), copied as (
		insert into audit.entries (id, kind, verdict, method, class, mode, dry_run, caller_issuer, caller_subject, caller_kind, machine_name, cluster,
			authority_version, policy_revision, codes, instance, count, record)
		select gen_random_uuid(), kind, verdict, method, class, mode, dry_run, caller_issuer, caller_subject, caller_kind, machine_name, cluster,
			authority_version, policy_revision, codes, instance, count,
			convert_to(replace(text, '"now":"' || now || '"', '"now":"' || to_char(now::timestamptz at time zone 'utc' + i * interval '1 second', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') || '"'), 'UTF8')
		from one, generate_series(1, $2::int) i
		returning recorded_at
	)
	select to_char(min(recorded_at) at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), to_char((max(recorded_at) + interval '1 microsecond') at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') from copied`,
		method, n).Scan(&since, &until)
	return since, until, err
}

// replayOnce runs the command, holds what it says against what was wanted, and gives its processor time.
func (h *benchHouse) replayOnce(ctx context.Context, flag, since, until string, n int) (time.Duration, error) {
	cmd := exec.CommandContext(ctx, h.Binary, "policy", "replay", flag, "--since", since, "--until", until, "-o", "json")
	cmd.Env = world.Environment(h.ClientEnvironment("audrey")...)
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("policy replay %s: %w\n%s", flag, err, out)
	}
	var report struct{ Decisions, Same int }
	if err := json.Unmarshal(out, &report); err != nil || report.Same != n || report.Decisions != n {
		return 0, fmt.Errorf("policy replay %s says that %d of %d decisions are the same, want %d: %w", flag, report.Same, report.Decisions, n, err)
	}
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), nil
}
