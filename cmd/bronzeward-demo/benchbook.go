package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sys/unix"

	"bronzeward/policy"
)

func dirFS(dir string) fs.FS { return os.DirFS(dir) }

// entriesOf counts the entries about a method.
func (h *benchHouse) entriesOf(ctx context.Context, method string) (n int64, err error) {
	err = h.db.QueryRow(ctx, "select count(*) from audit.entries where method = $1", method).Scan(&n)
	return n, err
}

// recordedFacts are the facts of the last apply of the 15 KiB configuration that was
// allowed; when there is none yet, one is made.
func (h *benchHouse) recordedFacts(ctx context.Context) (*policy.Facts, error) {
	const last = `select record from audit.entries where method = $1 and machine_name = $2 and verdict = 'allow'
		order by recorded_at desc, id desc limit 1`
	var record []byte
	if err := h.db.QueryRow(ctx, last, benchApply, h.small.name).Scan(&record); err != nil {
		if _, err := h.applyRounds(ctx, h.small, h.ways, 1); err != nil {
			return nil, err
		}
		if err := h.db.QueryRow(ctx, last, benchApply, h.small.name).Scan(&record); err != nil {
			return nil, err
		}
	}
	var entry struct {
		Facts policy.Facts `json:"facts"`
	}
	if err := json.Unmarshal(record, &entry); err != nil {
		return nil, fmt.Errorf("reading the facts of an entry: %w", err)
	}
	return &entry.Facts, nil
}

// steps are the gateway's own numbers about the steps of a call, since it started.
func (h *benchHouse) steps(ctx context.Context) (string, error) {
	page, err := h.Gateways["gateway-1"].Metrics(ctx)
	if err != nil {
		return "", err
	}
	t := &table{head: []string{"step of a call (`bronzeward_call_step_seconds`, all calls so far)", "n", "mean"}}
	for _, sum := range regexp.MustCompile(`(?m)^bronzeward_call_step_seconds_sum\{step="([a-z-]+)"\} (\S+)$`).FindAllStringSubmatch(page, -1) {
		count := regexp.MustCompile(`(?m)^bronzeward_call_step_seconds_count\{step="` + sum[1] + `"\} (\S+)$`).FindStringSubmatch(page)
		if count == nil {
			continue
		}
		seconds, errSum := strconv.ParseFloat(sum[2], 64)
		n, errCount := strconv.ParseFloat(count[1], 64)
		if errSum != nil || errCount != nil || n == 0 {
			continue
		}
		t.add(sum[1], fmt.Sprintf("%.0f", n), millis(time.Duration(seconds/n*float64(time.Second))))
	}
	return t.String(), nil
}

// bookSize measures what the book takes on disk, indexes and all.
func (h *benchHouse) bookSize(ctx context.Context, _ benchOptions) (string, error) {
	t := &table{head: []string{"what the book takes", "rows", "bytes per row on disk, indexes and all", "bytes of record, mean", "longest record"}}
	for _, name := range []string{"entries", "outcomes"} {
		var rows, disk, longest int64
		var mean float64
		err := h.db.QueryRow(ctx, fmt.Sprintf(`select count(*), coalesce(avg(octet_length(record)), 0), coalesce(max(octet_length(record)), 0),
			(select sum(pg_total_relation_size(relid)) from pg_partition_tree('audit.%[1]s')) from audit.%[1]s`, name)).Scan(&rows, &mean, &longest, &disk)
		if err != nil {
			return "", err
		}
		if rows == 0 {
			return "", fmt.Errorf("audit.%s is empty", name)
		}
		t.add(name, fmt.Sprint(rows), fmt.Sprintf("%.0f", float64(disk)/float64(rows)), fmt.Sprintf("%.0f", mean), fmt.Sprint(longest))
	}
	var rows, disk int64
	if err := h.db.QueryRow(ctx, "select count(*), pg_total_relation_size('audit.unsequenced') from audit.unsequenced").Scan(&rows, &disk); err != nil {
		return "", err
	}
	t.add("unsequenced (until a row has its place in the tree)", fmt.Sprint(rows), fmt.Sprintf("%.0f", float64(disk)/float64(max(rows, 1))), "–", "–")
	kinds := &table{head: []string{"entries of", "rows", "bytes of record, mean"}}
	found, err := h.db.Query(ctx, `select coalesce(method, kind), count(*), avg(octet_length(record))::float8 from audit.entries
		where method like '/machine%' group by 1 having count(*) > 1 order by 2 desc limit 5`)
	if err != nil {
		return "", err
	}
	defer found.Close()
	for found.Next() {
		var method string
		var n int64
		var mean float64
		if err := found.Scan(&method, &n, &mean); err != nil {
			return "", err
		}
		kinds.add("`"+method+"`", fmt.Sprint(n), fmt.Sprintf("%.0f", mean))
	}
	return "### The book\n\n" + t.String() + "\n" + kinds.String(), found.Err()
}

// machineTable says what all this was measured on.
func machineTable(ctx context.Context, db interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}, dir string,
) (string, error) {
	var version, commit, fsync, method string
	err := db.QueryRow(ctx, `select current_setting('server_version'), current_setting('synchronous_commit'), current_setting('fsync'),
		current_setting('wal_sync_method')`).Scan(&version, &commit, &fsync, &method)
	if err != nil {
		return "", err
	}
	sync, err := syncTimes(dir)
	if err != nil {
		return "", err
	}
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return "", err
	}
	t := &table{head: []string{"machine", ""}}
	t.add("measured", time.Now().UTC().Format("2006-01-02 15:04 UTC"))
	t.add("processor", fmt.Sprintf("%s, %d cores seen", firstOf("/proc/cpuinfo", "model name"), runtime.NumCPU()))
	t.add("memory", firstOf("/proc/meminfo", "MemTotal"))
	t.add("kernel", unix.ByteSliceToString(name.Sysname[:])+" "+unix.ByteSliceToString(name.Release[:])+" "+unix.ByteSliceToString(name.Machine[:]))
	t.add("load when the run began", firstWords("/proc/loadavg", 3))
	t.add("fdatasync of 8 KiB on the database's disk", fmt.Sprintf("p50 %s, p99 %s (%d times)", millis(sync.p50()), millis(sync.p99()), len(sync)))
	t.add("Go", runtime.Version())
	t.add("PostgreSQL", fmt.Sprintf("%s, synchronous_commit %s, fsync %s, wal_sync_method %s", version, commit, fsync, method))
	t.add("grpc-go, grpc-proxy", moduleVersion("google.golang.org/grpc")+", "+moduleVersion("github.com/siderolabs/grpc-proxy"))
	return t.String(), nil
}

// syncTimes measures fdatasync of one database page, over and over in one file.
func syncTimes(dir string) (samples, error) {
	f, err := os.CreateTemp(dir, "fdatasync-")
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	page := bytes.Repeat([]byte{1}, 8<<10)
	if _, err := f.Write(bytes.Repeat(page, 128)); err != nil {
		return nil, err
	}
	if err := f.Sync(); err != nil {
		return nil, err
	}
	var took samples
	for i := range 256 {
		if _, err := f.WriteAt(page, int64(i%128)*int64(len(page))); err != nil {
			return nil, err
		}
		began := time.Now()
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			return nil, err
		}
		took = append(took, time.Since(began))
	}
	return took, nil
}

// firstOf is the value of the first line of a file that begins with a key.
func firstOf(path, key string) string {
	raw, err := os.ReadFile(path)
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(raw)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == key {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

func firstWords(path string, n int) string {
	raw, err := os.ReadFile(path)
	if err != nil {
		return "unknown"
	}
	words := strings.Fields(string(raw))
	return strings.Join(words[:min(n, len(words))], " ")
}

func moduleVersion(path string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, m := range info.Deps {
		if m.Path == path {
			return m.Version
		}
	}
	return "unknown"
}
