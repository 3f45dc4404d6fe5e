package book

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"bronzeward/audit"
	"bronzeward/cmd/bronzeward/cli"
)

// ids are those of JSON lines.
func ids(t *testing.T, lines string) (out []string) {
	t.Helper()
	for line := range strings.Lines(lines) {
		var one struct{ ID string }
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		out = append(out, one.ID)
	}
	return out
}

func TestTheNewestAreShownInTheTreesOrder(t *testing.T) {
	w := newWorld(t)
	var all []string
	for range 6 {
		all = append(all, w.write(t, call("Version"), audit.Outcome{Kind: audit.OutcomeAnswered, Code: "OK"}).String())
	}
	w.sequence(t)
	if got := ids(t, w.run(t, "tail", "-o", "json", "-n", "4").out); !slices.Equal(got, all[2:]) {
		t.Errorf("the newest four are %v, want %v", got, all[2:])
	}
	if got := ids(t, w.run(t, "tail", "-o", "json", "--after", all[1]).out); !slices.Equal(got, all[2:]) {
		t.Errorf("behind the second there are %v, want %v", got, all[2:])
	}
	table := w.run(t, "tail", "-n", "1")
	if table.err != nil || !strings.HasPrefix(table.out, "TIME ") || strings.Contains(table.out, "OUTCOME") || !strings.Contains(table.out, all[5]) {
		t.Errorf("%v\n%s", table.err, table.out)
	}
	if got := w.run(t, "tail", "--after", uuid.NewString()); got.err == nil || !strings.Contains(got.err.Error(), "is in the tree") {
		t.Errorf("an id that is nowhere: %v", got.err)
	}
}

// A row that was recorded before others and commits after them comes behind them in the tree: who
// follows by the tree sees it, who followed by time would not.
func TestARowThatCommitsLateIsNotMissed(t *testing.T) {
	w := newWorld(t)
	late := w.write(t, call("Version"))
	first := w.write(t, call("Version"))
	// As if late had not committed when the others were sequenced.
	if _, err := w.owner.Exec(t.Context(), `create table held as select * from audit.unsequenced where id = $1`, late); err != nil {
		t.Fatal(err)
	}
	if _, err := w.owner.Exec(t.Context(), `delete from audit.unsequenced where id = $1`, late); err != nil {
		t.Fatal(err)
	}
	w.sequence(t)
	if got := ids(t, w.run(t, "tail", "-o", "json").out); !slices.Equal(got, []string{first.String()}) {
		t.Fatalf("got %v", got)
	}
	if _, err := w.owner.Exec(t.Context(), `insert into audit.unsequenced select * from held`); err != nil {
		t.Fatal(err)
	}
	w.sequence(t)
	if got := ids(t, w.run(t, "tail", "-o", "json", "--after", first.String()).out); !slices.Equal(got, []string{late.String()}) {
		t.Errorf("behind the first there is %v, want the one that committed late", got)
	}
	// The control: by time, nothing comes behind it.
	row, _, err := audit.NewReader(w.owner).List(t.Context(), audit.Filter{}, audit.Page{Limit: 1})
	if err != nil || len(row) != 1 || row[0].ID != first {
		t.Errorf("the newest by time is %v, %v", row, err)
	}
}

// lineWriter tells of every line that is written.
type lineWriter struct {
	mu    sync.Mutex
	text  bytes.Buffer
	wrote chan string
}

func (l *lineWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Write(p)
	for line := range strings.Lines(string(p)) {
		l.wrote <- line
	}
	return len(p), nil
}

func TestWhoFollowsSeesEachRowOnceAndIsToldWhereToGoOn(t *testing.T) {
	w := newWorld(t)
	var all []string
	add := func() {
		all = append(all, w.write(t, call("Version"), audit.Outcome{Kind: audit.OutcomeAnswered, Code: "OK"}).String())
		w.sequence(t)
	}
	add()
	t.Setenv(auditorURL, w.auditor)
	ctx, stop := context.WithCancel(t.Context())
	out := &lineWriter{wrote: make(chan string, 100)}
	ended := make(chan ran, 1)
	go func() { ended <- runAt(t, ctx, noConfig{}, cli.Console{Out: out}, "tail", "-o", "json", "--follow") }()
	<-out.wrote
	for range 3 {
		add()
		<-out.wrote
	}
	stop()
	got := <-ended
	if got.err != nil || !slices.Equal(ids(t, out.text.String()), all) {
		t.Errorf("%v: saw %v, want %v", got.err, ids(t, out.text.String()), all)
	}
	if !strings.Contains(got.errOut, "--after "+all[3]+"\n") {
		t.Errorf("it says %q", got.errOut)
	}
}

// patchy is a source that is away for a while.
type patchy struct {
	answers []func() ([]decision, string, bool, error)
	asked   []string
	end     context.CancelFunc
}

func (*patchy) list(context.Context, question) ([]decision, string, error) { return nil, "", nil }

func (*patchy) show(context.Context, uuid.UUID) (*whole, error) { return nil, nil }

func (p *patchy) follow(_ context.Context, _ audit.Filter, after string, _ int) ([]decision, string, bool, error) {
	p.asked = append(p.asked, after)
	if len(p.answers) == 0 {
		p.end()
		return nil, after, false, nil
	}
	next := p.answers[0]
	p.answers = p.answers[1:]
	return next()
}

func TestAnOutageIsToldOnceAndBridged(t *testing.T) {
	gives := func(id, next string) func() ([]decision, string, bool, error) {
		return func() ([]decision, string, bool, error) { return []decision{{ID: id}}, next, false, nil }
	}
	away := func() ([]decision, string, bool, error) {
		return nil, "", false, cli.Unavailable(errors.New("nobody there"))
	}
	ctx, end := context.WithCancel(t.Context())
	p := &patchy{answers: []func() ([]decision, string, bool, error){gives("one", "1"), away, away, away, gives("two", "2")}, end: end}
	var out, errOut bytes.Buffer
	f := &follower{g: &cli.Globals{Output: "json", Console: cli.Console{Out: &out, ErrOut: &errOut, Pause: 1}}, where: p, page: 10}
	if err := f.run(ctx, true); err != nil {
		t.Fatal(err)
	}
	if want := []string{"one", "two"}; !slices.Equal(ids(t, out.String()), want) {
		t.Errorf("saw %v", ids(t, out.String()))
	}
	if want := []string{"", "1", "1", "1", "1", "2"}; !slices.Equal(p.asked, want) {
		t.Errorf("asked behind %q, want %q", p.asked, want)
	}
	want := "the book does not answer: nobody there; trying again until it does\nthe book answers again\nto go on: bronzeward decisions tail --follow --after two\n"
	if errOut.String() != want {
		t.Errorf("said %q, want %q", errOut.String(), want)
	}

	// What is not over at the next try ends it; so does an outage of who does not follow.
	for name, row := range map[string]struct {
		follow bool
		err    error
	}{"refused": {true, errors.New("no")}, "not following": {false, cli.Unavailable(errors.New("no"))}} {
		p := &patchy{answers: []func() ([]decision, string, bool, error){func() ([]decision, string, bool, error) { return nil, "", false, row.err }}, end: end}
		f := &follower{g: f.g, where: p, page: 10}
		if err := f.run(t.Context(), row.follow); !errors.Is(err, row.err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDecisionsAreCounted(t *testing.T) {
	w := newWorld(t)
	for range 3 {
		w.write(t, call("Version"))
	}
	denied := call("Reboot")
	denied.Verdict, denied.Codes, denied.MachineName, denied.Caller.Subject = audit.Denied, []string{"BW-METHODS-005"}, "worker-2", "vera"
	w.write(t, denied)
	w.write(t, audit.Entry{Kind: audit.KindRPC, Verdict: audit.Refused, Class: "no-credential", ClientAddress: "10.6.6.6", Count: 40, Codes: []string{"BW-CREDENTIAL-001"}})
	golden(t, "stats.txt", w.run(t, "stats").out)
	if got := w.run(t, "stats", "-o", "csv", "--top", "1", "--since", "1h").out; got != fmt.Sprintf("kind,name,of,decisions,counted,refused\n%s\n%s\n%s\n%s\n",
		"verdict,allow,,3,3,0", "code,BW-CREDENTIAL-001,,1,40,1", "machine,worker-1,lab,3,3,0", "person,olga,https://people.example,3,3,0") {
		t.Errorf("got\n%s", got)
	}
	if got := w.run(t, "stats", "-o", "json", "--until", "2020-01-01"); got.out != "[]\n" || !strings.Contains(got.errOut, "no decision") {
		t.Errorf("%q %q", got.out, got.errOut)
	}
}

func TestAMachinesLifeIsTold(t *testing.T) {
	w := newWorld(t)
	act := func(name string) audit.Entry {
		e := call("x")
		e.Kind, e.Method, e.Class, e.Facts = audit.KindHTTP, name, "act", nil
		return e
	}
	var ids []uuid.UUID
	ids = append(ids, w.write(t, act("machines.add")), w.write(t, act("machines.pin")), w.write(t, call("Version")))
	ids = append(ids, w.write(t, apply(), audit.Outcome{Kind: audit.OutcomeState, State: "completed"}))
	denied := call("Reboot")
	denied.Verdict, denied.Codes, denied.Class = audit.Denied, []string{"BW-METHODS-005"}, "mutate"
	ids = append(ids, w.write(t, denied))
	golden(t, "timeline.txt", settled(w.run(t, "timeline", "worker-1").out, ids...))
	got := w.run(t, "timeline", "worker-1", "--reads", "-o", "json")
	var list []struct{ What string }
	if err := json.Unmarshal([]byte(got.out), &list); err != nil || len(list) != 5 || list[2].What != "Version" {
		t.Errorf("%v %+v", err, list)
	}
}
