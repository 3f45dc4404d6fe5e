package vault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"pgregory.net/rapid"

	"bronzeward/fixtures/openbao/baotest"
)

// memory is an anchor's place as OpenBao keeps it: deleted is true after a soft delete, which
// leaves the version number taken.
type memory struct {
	held    Anchor
	version int
	deleted bool
	// first runs once before a write, as another replica would.
	first func(*memory)
	err   error
	wrote int
}

func (m *memory) Read(context.Context) (Anchor, int, error) {
	if m.err != nil || m.deleted {
		return Anchor{}, 0, m.err
	}
	return m.held, m.version, nil
}

func (m *memory) Write(_ context.Context, next Anchor, over int) (int, error) {
	if first := m.first; first != nil {
		m.first = nil
		first(m)
	}
	if over != m.version {
		return 0, refused("writing", KindMoved, nil, "somebody else has written it in between")
	}
	m.held, m.version = next, m.version+1
	m.wrote++
	return m.version, nil
}

func TestTheAnchorIsOnlyRaised(t *testing.T) {
	at := time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)
	there := Anchor{Epoch: "one", Size: 7, Root: "aa", AuthorityVersion: 5, Revocations: 2, Written: at}
	other := func(a Anchor) func(*memory) {
		return func(m *memory) { m.held, m.version = a, m.version+1 }
	}
	for name, row := range map[string]struct {
		place memory
		raise func(*Anchor)
		want  Anchor
		wrote int
		kind  Kind
		class error
	}{
		"the very first": {
			memory{}, func(a *Anchor) { *a = Anchor{Epoch: "one", AuthorityVersion: 3} }, Anchor{Epoch: "one", AuthorityVersion: 3}, 1, "", nil,
		},
		"a checkpoint": {
			memory{held: there, version: 1},
			func(a *Anchor) { a.Size, a.Root = 9, "bb" },
			Anchor{Epoch: "one", Size: 9, Root: "bb", AuthorityVersion: 5, Revocations: 2},
			1, "", nil,
		},
		"authority alone": {
			memory{held: there, version: 1},
			func(a *Anchor) { a.AuthorityVersion, a.Revocations = 6, 3 },
			Anchor{Epoch: "one", Size: 7, Root: "aa", AuthorityVersion: 6, Revocations: 3},
			1, "", nil,
		},
		"some of it lower": {
			memory{held: there, version: 1},
			func(a *Anchor) { a.Size, a.Root, a.AuthorityVersion, a.Revocations = 6, "cc", 9, 1 },
			Anchor{Epoch: "one", Size: 7, Root: "aa", AuthorityVersion: 9, Revocations: 2},
			1, "", nil,
		},
		"all of it lower": {memory{held: there, version: 1}, func(a *Anchor) { a.Size, a.Root, a.AuthorityVersion, a.Revocations = 1, "c", 1, 1 }, there, 0, "", nil},
		"the same":        {memory{held: there, version: 1}, func(*Anchor) {}, there, 0, "", nil},
		"another epoch":   {memory{held: there, version: 1}, func(a *Anchor) { a.Epoch, a.Size = "two", 99 }, there, 0, KindOtherEpoch, ErrRefused},
		"no epoch":        {memory{}, func(a *Anchor) { a.Size = 99 }, Anchor{}, 0, KindOtherEpoch, ErrRefused},
		"another root":    {memory{held: there, version: 1}, func(a *Anchor) { a.Root = "bb" }, there, 0, KindForked, ErrRefused},
		"another was first": {
			memory{held: there, version: 1, first: other(Anchor{Epoch: "one", Size: 8, Root: "ee", AuthorityVersion: 9})},
			func(a *Anchor) { a.Size, a.Root, a.AuthorityVersion = 9, "bb", 6 },
			Anchor{Epoch: "one", Size: 9, Root: "bb", AuthorityVersion: 9},
			1, "", nil,
		},
		"another was first and further": {
			memory{held: there, version: 1, first: other(Anchor{Epoch: "one", Size: 80, Root: "ee", AuthorityVersion: 9})},
			func(a *Anchor) { a.Size, a.Root, a.AuthorityVersion = 9, "bb", 6 },
			Anchor{Epoch: "one", Size: 80, Root: "ee", AuthorityVersion: 9},
			0, "", nil,
		},
		"another house's replica was first": {
			memory{first: other(Anchor{Epoch: "two"})}, func(a *Anchor) { a.Epoch = "one" }, Anchor{Epoch: "two"}, 0, KindOtherEpoch, ErrRefused,
		},
		"deleted": {memory{held: there, version: 4, deleted: true}, func(a *Anchor) { a.Epoch = "one" }, there, 0, KindMissing, ErrRefused},
		"OpenBao away": {
			memory{held: there, err: unavailable("reading the anchor", KindSealed, nil, "OpenBao is sealed")}, func(*Anchor) {}, there, 0, KindSealed, ErrUnavailable,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, _, err := forward(t.Context(), &row.place, 0, row.raise)
			if kindOf(err) != row.kind || row.class != nil && !errors.Is(err, row.class) {
				t.Fatalf("got %v", err)
			}
			held := row.place.held
			if row.place.wrote > 0 && !held.Written.After(at) {
				t.Errorf("written at %s", held.Written)
			}
			if held.Written = row.want.Written; held != row.want || row.place.wrote != row.wrote {
				t.Errorf("%d writings, and it holds %+v, want %+v", row.place.wrote, held, row.want)
			}
			if got.Written = row.want.Written; err == nil && got != row.want {
				t.Errorf("it gives %+v", got)
			}
		})
	}
}

// Whatever is there and whatever is wanted, nothing is lower afterwards than either of the two.
func TestNothingOfTheAnchorIsEverLowered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		anchor := func(name string) Anchor {
			size := rapid.Int64Range(0, 5).Draw(t, name+" size")
			return Anchor{
				Epoch: rapid.SampledFrom([]string{"", "one", "two"}).Draw(t, name+" epoch"), Size: size,
				Root:             rapid.SampledFrom([]string{"x", "y"}).Draw(t, name+" root") + fmt.Sprint(size),
				AuthorityVersion: rapid.Int64Range(0, 5).Draw(t, name+" authority"), Revocations: rapid.Int64Range(0, 5).Draw(t, name+" revocations"),
			}
		}
		there, want := anchor("there"), anchor("want")
		next, higher, err := there.raised(want, false)
		switch {
		case next.Size < there.Size, next.AuthorityVersion < there.AuthorityVersion, next.Revocations < there.Revocations, next.Epoch != there.Epoch:
			t.Fatalf("%+v became %+v", there, next)
		case next.Size == there.Size && next.Root != there.Root:
			t.Fatalf("the root at size %d became another", there.Size)
		case err != nil && (higher || next != there):
			t.Fatalf("refused and raised all the same: %+v", next)
		case err == nil && (next.Size < want.Size || next.AuthorityVersion < want.AuthorityVersion || next.Revocations < want.Revocations || want.Epoch != there.Epoch):
			t.Fatalf("%+v was wanted, and %+v came of it", want, next)
		case err == nil && next.Size > there.Size && next.Root != want.Root:
			t.Fatalf("size %d came with the root of another", next.Size)
		}
	})
}

// careless writes over whatever is there: the guard removed.
type careless struct{ *Anchors }

func (c careless) Write(ctx context.Context, next Anchor, _ int) (int, error) {
	return c.client.put(ctx, "writing the anchor", PathAnchor, next, anyVersion)
}

// interrupted lets another replica go by between its first reading and its writing.
type interrupted struct {
	anchorPlace
	meanwhile func()
}

func (i *interrupted) Write(ctx context.Context, next Anchor, over int) (int, error) {
	if once := i.meanwhile; once != nil {
		i.meanwhile = nil
		once()
	}
	return i.anchorPlace.Write(ctx, next, over)
}

func TestAReplicaThatReadBeforeAnotherWroteDoesNotWriteOverIt(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name  string
		place func(*Anchors) anchorPlace
		size  int64 // that the anchor has in the end
	}{
		{"with check-and-set", func(a *Anchors) anchorPlace { return a }, 9},
		{"control: without it the anchor goes back", func(a *Anchors) anchorPlace { return careless{a} }, 8},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, baotest.Server(t))
			a, other := NewAnchors(h.gateway(t)), NewAnchors(h.gateway(t))
			to := func(size int64) func(*Anchor) {
				return func(a *Anchor) { a.Epoch, a.Size, a.Root = "one", size, fmt.Sprint(size) }
			}
			if _, err := a.Forward(t.Context(), to(1)); err != nil {
				t.Fatal(err)
			}
			place := &interrupted{anchorPlace: row.place(a), meanwhile: func() {
				if _, err := other.Forward(t.Context(), to(9)); err != nil {
					t.Error(err)
				}
			}}
			if _, _, err := forward(t.Context(), place, 0, to(8)); err != nil {
				t.Fatal(err)
			}
			if got, _, err := a.Read(t.Context()); err != nil || got.Size != row.size {
				t.Errorf("the anchor is at size %d, want %d; %v", got.Size, row.size, err)
			}
		})
	}
}

// Many replicas raise it at once, each what it knows. No version that OpenBao ever held is lower in
// anything than the one before it, and the last has the highest of all.
func TestManyReplicasNeverTakeTheAnchorBack(t *testing.T) {
	t.Parallel()
	h := newHouse(t, baotest.Server(t))
	h.root(t, http.MethodPost, h.kv+"/metadata/"+PathAnchor, map[string]any{"max_versions": 1000})
	const replicas, each = 6, 8
	clients := make([]*Anchors, replicas)
	for i := range clients {
		clients[i] = NewAnchors(h.gateway(t))
	}
	for _, err := range together(replicas, func(i int) error {
		for n := range each {
			_, err := clients[i].Forward(t.Context(), func(a *Anchor) {
				a.Epoch = "one"
				switch i % 3 {
				case 0:
					a.Size, a.Root = int64(n*replicas+i+1), fmt.Sprint(n*replicas+i+1)
				case 1:
					a.AuthorityVersion = int64(n*replicas + i + 1)
				default:
					a.Revocations = int64(n*replicas + i + 1)
				}
			})
			if err != nil {
				return err
			}
		}
		return nil
	}) {
		if err != nil {
			t.Error(err)
		}
	}
	last, version, err := clients[0].Read(t.Context())
	if err != nil || last.Size != (each-1)*replicas+3+1 || last.AuthorityVersion != (each-1)*replicas+4+1 || last.Revocations != (each-1)*replicas+5+1 {
		t.Fatalf("in the end there is %+v, %v", last, err)
	}
	var before Anchor
	for v := 1; v <= version; v++ {
		data, _ := h.root(t, http.MethodGet, fmt.Sprintf("%s/data/%s?version=%d", h.kv, PathAnchor, v), nil)["data"].(map[string]any)
		now := anchorOf(t, data["data"])
		if now.Size < before.Size || now.AuthorityVersion < before.AuthorityVersion || now.Revocations < before.Revocations || now == before {
			t.Errorf("version %d has %+v after %+v", v, now, before)
		}
		before = now
	}
}

// anchorOf reads what OpenBao says a version holds.
func anchorOf(t testing.TB, data any) (a Anchor) {
	t.Helper()
	raw, err := json.Marshal(data)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &a); err != nil {
		t.Fatal(err)
	}
	return a
}
