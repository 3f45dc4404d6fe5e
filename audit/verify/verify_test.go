package verify

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"bronzeward/audit/tree"
)

func TestTheUntouchedBookIsWhole(t *testing.T) {
	d := newDatabase(t)
	kept := Kept{"kept", []byte(d.text(t, "select note from audit.checkpoints where tree = 1 and size = 612"))}
	r := d.verify(t, Options{Keys: ours.keys(), Kept: []Kept{kept}})
	if !r.Whole || len(r.Findings) > 0 || len(r.Counts) > 0 {
		t.Errorf("%+v", r.Findings)
	}
	first, second := r.Trees[0], r.Trees[1]
	if r.Entries+r.Outcomes != lastRound+secondTree+stillWaiting || r.Waiting != stillWaiting || !r.SignaturesChecked {
		t.Errorf("%+v", r)
	}
	if first.Leaves != lastRound || first.Tiles != 2 || first.Checkpoints != 3 || first.Agreed != 3 || first.Signatures != 3 || first.KeptAgreed != 1 ||
		second.Leaves != secondTree || second.Agreed != 1 || second.Epoch != secondEpoch {
		t.Errorf("%+v", r.Trees)
	}
	if r := d.verify(t, Options{stride: 64, pending: 1}); !r.Whole {
		t.Errorf("with little memory: %v", told(r.Findings))
	}
	if r := d.verify(t, Options{}); !r.Whole || r.SignaturesChecked || r.Trees[0].Signatures != 0 {
		t.Errorf("without keys: %+v", r)
	}
}

func TestTamperingIsFoundAndNamed(t *testing.T) {
	for _, row := range tampered {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			d := newDatabase(t)
			sql, want := d.expand(t, row.sql), []string{}
			for _, w := range row.want {
				want = append(want, d.expand(t, w))
			}
			d.tamper(t, sql)
			r := d.verify(t, Options{Keys: ours.keys(), Limit: 20})
			// The same is found when hardly anything may wait in memory, and what does not meet is looked up.
			if few := d.verify(t, Options{Keys: ours.keys(), Limit: 20, stride: 64, pending: 8, Readers: 3}); !maps.Equal(few.Counts, r.Counts) || row.want != nil && !slices.Equal(told(few.Findings), told(r.Findings)) {
				t.Errorf("with little memory, told\n%s\nof %v", strings.Join(told(few.Findings), "\n"), few.Counts)
			}
			got := told(r.Findings)
			if r.Whole || row.want != nil && !slices.Equal(got, want) {
				t.Errorf("told\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			switch row.name {
			case "entries rolled back to an older copy":
				gone := count(t, d, "select count(*) from audit.leaves l where tree = 1 and source = 'entry' and not exists (select from audit.entries e where e.id = l.id)")
				if gone < 10 || r.Counts[Missing] != gone || len(r.Counts) != 1 {
					t.Errorf("%d rows are gone, counted are %v", gone, r.Counts)
				}
			case "all terms deleted":
				gave := count(t, d, `select count(*) from (select e.id, 'c' || c from audit.entries e, unnest(codes) c union select e.id, 'p' || p from audit.entries e, audit.path_terms(record) p) x`)
				if gave < 500 || r.Counts[Term] != gave || len(r.Counts) != 1 || len(r.Findings) != 20 {
					t.Errorf("%d terms are gone, counted are %v", gave, r.Counts)
				}
			case "many leaves deleted, over tiles":
				if r.Counts[Inserted] != 401 || r.Counts[Leaf] != 1 || len(r.Counts) != 2 || r.Trees[0].Unknown != 3 || r.Trees[0].Agreed != 0 || len(r.Findings) != 21 {
					t.Errorf("counted are %v, %+v", r.Counts, r.Trees[0])
				}
			}
			for _, f := range r.Findings {
				if strings.Contains(fmt.Sprintf("%+v", f), "olga") || f.Text == "" {
					t.Errorf("tells of what a record says, or nothing: %+v", f)
				}
			}
		})
	}
}

func count(t testing.TB, d database, sql string) (n int64) {
	t.Helper()
	if err := d.owner.QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

var placeholder = regexp.MustCompile(`\{([EOAWDP]?)(\d*)(\.id)?\}`)

// expand puts places and ids in; {A…} is an entry that was allowed, {D…} one with two codes,
// {P…} one with changed paths, {W} one that waits.
func (d database) expand(t testing.TB, text string) string {
	return placeholder.ReplaceAllStringFunc(text, func(word string) string {
		m := placeholder.FindStringSubmatch(word)
		if m[1] == "" && m[2] == "" {
			return word
		}
		if m[1] == "W" {
			return d.text(t, "select id::text from audit.unsequenced where source = 'entry' order by recorded_at limit 1")
		}
		what := map[string]string{
			"": "", "E": "and source = 'entry'", "O": "and source = 'outcome'", "A": "and id in (select id from audit.entries where verdict = 'allow')",
			"D": "and id in (select id from audit.entries where codes = '{BW-CONFIG-004,BW-MODE-001}')", "P": "and id in (select id from audit.entries where audit.names_paths(record))",
		}[m[1]]
		column := "index::text"
		if m[3] != "" {
			column = "id::text"
		}
		return d.text(t, fmt.Sprintf("select %s from audit.leaves l where tree = 1 and index >= %s %s order by l.index limit 1", column, m[2], what))
	})
}

// told is what findings say but their sentences, sorted.
func told(list []Finding) []string {
	out := []string{}
	for _, f := range list {
		words := []string{string(f.Kind), f.Table}
		if f.Tree > 0 {
			place := fmt.Sprint(f.Tree)
			if f.Indexes != nil {
				place += fmt.Sprintf("/%d", f.Indexes[0])
				if f.Indexes[1] != f.Indexes[0] {
					place += fmt.Sprintf("-%d", f.Indexes[1])
				}
			}
			words = append(words, place)
		}
		words = append(words, fmt.Sprint(f.Differs))
		if f.Kind == OutOfOrder {
			words = append(words, fmt.Sprintf("with %d", f.Others[0].Index))
		} else if f.ID != uuid.Nil {
			words = append(words, f.ID.String())
		}
		if f.Field != "" {
			words = append(words, f.Field, strconv.Quote(f.Term))
		}
		out = append(out, strings.Join(words, " "))
	}
	slices.Sort(out)
	return out
}

func TestAWholeMonthThatIsGoneIsOneFinding(t *testing.T) {
	d := newDatabase(t)
	month := before().Format("2006-01")
	part := before().Format("2006_01")
	d.tamper(t, "alter table audit.entries detach partition audit.entries_"+part+"; drop table audit.outcomes_"+part)
	r := d.verify(t, Options{Keys: ours.keys()})
	if got := told(r.Findings); !slices.Equal(got, []string{"detached entries []", "detached outcomes []"}) || r.Findings[0].Rows+r.Findings[1].Rows != lastMonth {
		t.Errorf("%v %+v", got, r.Findings)
	}
	if !strings.Contains(r.Findings[0].Text, month) {
		t.Error(r.Findings[0].Text)
	}
	if r := d.verify(t, Options{Keys: ours.keys(), Detached: []string{month}}); !r.Whole || r.Away != lastMonth || r.Trees[0].Agreed != 3 {
		t.Errorf("accepted: %+v", r)
	}
	if r := d.verify(t, Options{Detached: []string{"2001-01"}}); r.Whole {
		t.Error("another month was accepted")
	}
}

func TestATruncatedPartitionIsManyRowsMissing(t *testing.T) {
	d := newDatabase(t)
	d.tamper(t, "truncate audit.entries_"+before().Format("2006_01"))
	r := d.verify(t, Options{Detached: []string{before().Format("2006-01")}, Limit: 7})
	want := count(t, d, "select count(*) from audit.leaves where tree = 1 and index < 300 and source = 'entry'")
	if r.Whole || r.Counts[Missing] != want || len(r.Counts) != 1 || len(r.Findings) != 7 {
		t.Errorf("%v of %d, %d listed", r.Counts, want, len(r.Findings))
	}
}

func TestAKeptCheckpointTellsWhatTheBookAloneCannot(t *testing.T) {
	d := newDatabase(t)
	note := func(size int) []byte {
		return []byte(d.text(t, fmt.Sprintf("select note from audit.checkpoints where tree = 1 and size = %d", size)))
	}
	kept := []Kept{{"last", note(730)}, {"middle", note(612)}}
	foreign := []Kept{{"foreign", []byte(d.text(t, "select note from audit.checkpoints where tree = 2"))}}

	// The whole book as it was at 612 leaves: whole in itself.
	d.tamper(t, `delete from audit.entries where id in (select id from audit.leaves where tree = 2 or index >= 612); delete from audit.outcomes where id in (select id from audit.leaves where tree = 2 or index >= 612);
		delete from audit.entries where id in (select id from audit.unsequenced); delete from audit.outcomes where id in (select id from audit.unsequenced);
		delete from audit.unsequenced; delete from audit.leaves where tree = 2 or index >= 612; delete from audit.trees where tree = 2; delete from audit.checkpoints where tree = 2 or size > 612;
		delete from audit.terms t where not exists (select from audit.entries e where e.id = t.id)`)
	if r := d.verify(t, Options{Keys: ours.keys()}); !r.Whole {
		t.Errorf("the older copy is not whole in itself, so that this test shows nothing: %v", told(r.Findings))
	}
	if r := d.verify(t, Options{Keys: ours.keys(), Kept: kept}); !slices.Equal(told(r.Findings), []string{"rolled_back last 1/0-729 []"}) || r.Trees[0].KeptAgreed != 1 {
		t.Errorf("rolled back: %+v", told(r.Findings))
	}
	if r := d.verify(t, Options{Keys: ours.keys(), Kept: foreign}); !slices.Equal(told(r.Findings), []string{"forked foreign []"}) {
		t.Errorf("another tree: %+v", told(r.Findings))
	}
	if r := d.verify(t, Options{Keys: newSigner("another").keys(), Kept: kept[1:]}); r.Counts[Signature] != 3 || !strings.Contains(r.Findings[0].Text, "the public key is not this installation's") {
		t.Errorf("another key: %+v", r.Findings)
	}

	// Another book of the same length, signed again: only the kept checkpoint and the public key tell.
	forge(t, d, newSigner("another"))
	if r := d.verify(t, Options{}); !r.Whole {
		t.Errorf("the forged book is not whole in itself: %v", told(r.Findings))
	}
	if r := d.verify(t, Options{Kept: kept[1:]}); !slices.Equal(told(r.Findings), []string{"forked middle 1/0-611 [root]"}) {
		t.Errorf("forked: %v", told(r.Findings))
	}
	if r := d.verify(t, Options{Keys: ours.keys()}); !slices.Equal(told(r.Findings), []string{"signature checkpoints 1/0-611 [note]"}) {
		t.Errorf("signed by another: %v", told(r.Findings))
	}
	if _, err := Book(t.Context(), d.config(t), Options{Kept: []Kept{{"broken", []byte("x")}}}); !errors.Is(err, ErrKept) {
		t.Errorf("a file that is no checkpoint: %v", err)
	}
}

// forge changes the last row and makes leaf, tree and the only checkpoint anew.
func forge(t *testing.T, d database, s signer) {
	t.Helper()
	d.tamper(t, d.expand(t, `update audit.entries set instance = 'gw-9', record = convert_to(replace(convert_from(record, 'UTF8'), '"gw-1"', '"gw-9"'), 'UTF8') where id = '{A600.id}';
		update audit.leaves l set leaf = e.leaf from audit.entries e where e.id = l.id; delete from audit.checkpoints where size < 612`))
	rows, err := d.owner.Query(t.Context(), "select leaf from audit.leaves where tree = 1 order by index")
	if err != nil {
		t.Fatal(err)
	}
	leaves, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
	if err != nil {
		t.Fatal(err)
	}
	var all spine
	for _, l := range leaves {
		all.push(hash(l), nil)
	}
	c := tree.Checkpoint{Origin: tree.Origin(installation, firstEpoch), Size: int64(len(leaves)), Root: all.root(nil)}
	if _, err := d.owner.Exec(t.Context(), "update audit.checkpoints set root = $1, note = $2", c.Root[:], s.note(t, c)); err != nil {
		t.Fatal(err)
	}
}

func TestARangeReadsItsRowsAlone(t *testing.T) {
	d := newDatabase(t)
	begin := d.moment(t, "select recorded_at from audit.leaves where tree = 1 and index = 300")
	moved := []string{d.expand(t, "changed entries 1/{E60} [recorded_at] {E60.id}"), d.expand(t, "changed outcomes 1/{O500} [recorded_at] {O500.id}")}
	later := append(moved, d.expand(t, "missing outcomes 1/{O400} [] {O400.id}"))
	earlier := append(slices.Clone(moved), d.expand(t, "column entries 1/{A40} [verdict] {A40.id}"), d.expand(t, "missing entries 1/{E20} [] {E20.id}"))
	// The two that are moved leave their own half for the other.
	d.tamper(t, d.expand(t, `delete from audit.entries where id = '{E20.id}'; update audit.entries set verdict = 'refuse' where id = '{A40.id}';
		delete from audit.outcomes where id = '{O400.id}'; update audit.outcomes set recorded_at = recorded_at - interval '20 days' where id = '{O500.id}';
		update audit.entries set recorded_at = recorded_at + interval '31 days 1 hour' where id = '{E60.id}'`))
	r := d.verify(t, Options{Since: begin})
	if got := told(r.Findings); !slices.Equal(got, later) || r.Trees[0].Leaves != lastRound {
		t.Errorf("since: told %v, want %v", got, later)
	}
	if got := told(d.verify(t, Options{Until: begin}).Findings); !slices.Equal(got, earlier) {
		t.Errorf("until: told %v, want %v", got, earlier)
	}
}

func TestARowThatWaitsForTooLongIsTold(t *testing.T) {
	d := newDatabase(t)
	want := []string{d.expand(t, "unsequenced entries [] {W.id}")}
	d.tamper(t, d.expand(t, `update audit.entries set recorded_at = recorded_at - interval '2 hours' where id = '{W.id}';
		update audit.unsequenced u set recorded_at = e.recorded_at, leaf = e.leaf from audit.entries e where e.id = u.id and u.id = '{W.id}';
		update audit.terms t set recorded_at = e.recorded_at from audit.entries e where e.id = t.id and t.id = '{W.id}'`))
	r := d.verify(t, Options{})
	if got := told(r.Findings); !slices.Equal(got, want) || !strings.Contains(r.Findings[0].Text, "more than a minute") {
		t.Errorf("told %v, want %v", got, want)
	}
}

func TestWhatCannotBeVerifiedIsAnError(t *testing.T) {
	d := newDatabase(t)
	if _, err := Book(t.Context(), d.config(t), Options{Detached: []string{"January"}}); !errors.Is(err, ErrMonth) {
		t.Error(err)
	}
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Book(stopped, d.config(t), Options{}); err == nil {
		t.Error("a verification that was stopped has a report")
	}
	away, err := pgx.ParseConfig("postgres://auditor:secret-word@127.0.0.1:1/book?connect_timeout=1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Book(t.Context(), away, Options{}); !errors.Is(err, ErrUnavailable) || strings.Contains(err.Error(), "secret-word") {
		t.Errorf("a database that is away: %v", err)
	}
	if _, err := d.owner.Exec(t.Context(), "create role stranger login; update audit.schema_version set version = 2"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = d.owner.Exec(context.Background(), "drop role stranger") })
	if _, err := Book(t.Context(), d.config(t), Options{}); err == nil || !strings.Contains(err.Error(), "bronzeward migrate") {
		t.Errorf("an old schema: %v", err)
	}
	config, err := pgx.ParseConfig(shared.Server(t).DSN(d.name, "stranger"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Book(t.Context(), config, Options{}); err == nil || !strings.Contains(err.Error(), "bronzeward_auditor") {
		t.Errorf("a login without the role: %v", err)
	}
}
