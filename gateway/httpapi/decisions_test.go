package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"bronzeward/audit"
	"bronzeward/audit/tree"
	"bronzeward/gateway/control"
	"bronzeward/policy"
)

// listed is a page of decisions as a client sees it.
type listed struct {
	ids     []string
	next    string
	reading string // the entry it stands under
}

func (w *world) list(t testing.TB, target string) listed {
	t.Helper()
	return listedOf(t, w.do(t, takes(t, request("GET", target, nil))))
}

func listedOf(t testing.TB, rec *httptest.ResponseRecorder) listed {
	t.Helper()
	var page struct {
		Items []struct{ ID string }
		Next  string
	}
	if err := json.Unmarshal(rec.Body.Bytes(), &page); err != nil || rec.Code != 200 {
		t.Fatalf("got %d %s %v", rec.Code, rec.Body, err)
	}
	l := listed{next: page.Next, reading: rec.Header().Get(DecisionHeader), ids: []string{}}
	for _, item := range page.Items {
		l.ids = append(l.ids, item.ID)
	}
	return l
}

func TestAReadingIsOneEntryHoweverManyPages(t *testing.T) {
	for _, row := range []struct{ name, target, act, text string }{
		{"all of the book", "/decisions?limit=1", "decisions.read", ""},
		{"some of it", "/decisions?verdict=allow&digest=hmac-sha256:k1:" + strings.Repeat("a", 64) + "&limit=1", "decisions.read", "verdict=allow"},
		{"one's own", "/decisions?own=true&limit=1", "decisions.own", "own=true"},
		{"following", "/decisions?follow=true&limit=1&after=" + numbered(40).String(), "decisions.follow", "follow=true"},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t)
			first := w.list(t, row.target)
			if len(w.entries) != 1 || !strings.HasPrefix(w.entries[0], "read "+row.act+" reading ") || !strings.Contains(w.entries[0], row.text) {
				t.Fatalf("entries %q", w.entries)
			}
			for range 2 {
				target := strings.Split(row.target, "&after=")[0]
				next := w.list(t, target+"&cursor="+first.next)
				if cmp.Equal(next.ids, first.ids) || next.reading != first.reading || len(w.entries) != 1 {
					t.Errorf("going on gave %q of %s after %q of %s, entries %q", next.ids, next.reading, first.ids, first.reading, w.entries)
				}
			}
		})
	}
}

func TestACursorIsOfItsReadingAlone(t *testing.T) {
	const target = "/decisions?verdict=allow&limit=1"
	raw := func(t *testing.T, w *world, session uuid.UUID, place string) string {
		return target + "&cursor=" + cursorOf(listOfDecisions, session.String(), w.epoch.String(), place)
	}
	place := func(w *world) string { return w.shelf.rows[2].Cursor().String() }
	for _, row := range []struct {
		name string
		goOn func(t *testing.T, w *world, cursor string) string // may change the world; gives the target
		says string
	}{
		{"control: as it is", func(_ *testing.T, _ *world, c string) string { return target + "&cursor=" + c }, ""},
		{"control: another limit", func(_ *testing.T, _ *world, c string) string { return "/decisions?limit=2&verdict=allow&cursor=" + c }, ""},
		{"another query", func(_ *testing.T, _ *world, c string) string { return "/decisions?verdict=deny&cursor=" + c }, "other parameters"},
		{"nothing asked", func(_ *testing.T, _ *world, c string) string { return "/decisions?cursor=" + c }, "other parameters"},
		{"more asked", func(_ *testing.T, _ *world, c string) string { return target + "&kind=rpc&cursor=" + c }, "other parameters"},
		{"the other order", func(_ *testing.T, _ *world, c string) string { return target + "&order=oldest&cursor=" + c }, "other parameters"},
		{"as one's own", func(_ *testing.T, _ *world, c string) string { return target + "&own=true&cursor=" + c }, "other parameters"},
		{"to follow", func(_ *testing.T, _ *world, c string) string {
			return "/decisions?verdict=allow&follow=true&cursor=" + c
		}, "not one that this list gave"},
		{"somebody else's", func(_ *testing.T, w *world, c string) string {
			w.caller.Subject = "otto"
			return target + "&cursor=" + c
		}, "not one that this list gave"},
		{"a namesake's at another issuer", func(_ *testing.T, w *world, c string) string {
			w.caller.Issuer = "https://other.example"
			return target + "&cursor=" + c
		}, "not one that this list gave"},
		{"of another epoch", func(_ *testing.T, w *world, c string) string {
			w.epoch = numbered(98)
			return target + "&cursor=" + c
		}, "another epoch"},
		{"of another epoch, made to look like this one", func(t *testing.T, w *world, _ string) string {
			w.epoch = numbered(98)
			return raw(t, w, numbered(1001), place(w))
		}, "not one that this list gave"},
		{"after an hour", func(_ *testing.T, w *world, c string) string {
			w.now = w.now.Add(readingLasts + time.Second)
			return target + "&cursor=" + c
		}, "more than an hour ago"},
		{"of a reading that never was", func(t *testing.T, w *world, _ string) string { return raw(t, w, numbered(999), place(w)) }, "not one that this list gave"},
		{"of a call of one's own", func(t *testing.T, w *world, _ string) string { return raw(t, w, numbered(42), place(w)) }, "not one that this list gave"},
		{"of showing one", func(t *testing.T, w *world, _ string) string {
			w.do(t, request("GET", "/decisions/"+numbered(42).String(), nil))
			return raw(t, w, numbered(1002), place(w))
		}, "not one that this list gave"},
		{"of a reading that was refused", func(t *testing.T, w *world, _ string) string {
			w.reads(numbered(77), by(w), "decisions.read", readingOf("verdict=allow")+"verdict=allow", audit.Denied)
			return raw(t, w, numbered(77), place(w))
		}, "not one that this list gave"},
		{"of another act with the same words", func(t *testing.T, w *world, _ string) string {
			w.reads(numbered(77), by(w), "decisions.own", readingOf("verdict=allow")+"verdict=allow", audit.Allowed)
			return raw(t, w, numbered(77), place(w))
		}, "other parameters"},
		{"no place", func(t *testing.T, w *world, _ string) string { return raw(t, w, numbered(1001), "1.2") }, "not one that this list gave"},
		{"no session", func(_ *testing.T, w *world, _ string) string {
			return target + "&cursor=" + cursorOf(listOfDecisions, "x", w.epoch.String(), place(w))
		}, "not one that this list gave"},
		{"of another list", func(_ *testing.T, _ *world, _ string) string {
			return target + "&cursor=" + cursorOf(listOfChanges, chg)
		}, "not one that this list gave"},
		{"garbage", func(_ *testing.T, _ *world, _ string) string { return target + "&cursor=!!" }, "not one that this list gave"},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t)
			cursor := w.list(t, target).next
			r := request("GET", row.goOn(t, w, cursor), nil)
			if row.says == "" {
				if rec := w.do(t, r); rec.Code != 200 {
					t.Fatalf("control: %d %s", rec.Code, rec.Body)
				}
				return
			}
			if rec := w.refuses(t, r, 400, "BW-HTTP-400"); !strings.Contains(rec.Body.String(), row.says) {
				t.Errorf("said %s, want %q", rec.Body, row.says)
			}
			if last := w.entries[len(w.entries)-1]; !strings.HasPrefix(last, "refused decisions.read") {
				t.Errorf("entries %q", w.entries)
			}
		})
	}
}

func TestAReadingGoesOnOnlyForWhoStillMay(t *testing.T) {
	w := newWorld(t)
	target := "/decisions?limit=1"
	cursor := w.list(t, target).next
	w.denies["decisions.read"] = deniedAct{[]policy.Reason{deny("BW-ACT-001", "you are revoked")}}
	w.refuses(t, request("GET", target+"&cursor="+cursor, nil), 403, "BW-ACT-001")
	if diff := cmp.Diff([]string{"denied decisions.read"}, w.entries[1:]); diff != "" {
		t.Error(diff)
	}
	w.denies["decisions.read"] = deniedAct{[]policy.Reason{{Code: "BW-ACT-003", Message: "decisions.read needs the role auditor", Severity: policy.SeverityDeny}}}
	rec := w.refuses(t, request("GET", "/decisions", nil), 403, "BW-ACT-003")
	if !strings.Contains(rec.Body.String(), "own=true") {
		t.Errorf("nobody is told what is left to them: %s", rec.Body)
	}
}

func TestOnesOwnIsNobodyElses(t *testing.T) {
	w := newWorld(t)
	if got := w.list(t, "/decisions?own=true"); !cmp.Equal(got.ids, []string{numbered(42).String(), numbered(40).String()}) {
		t.Errorf("listed %q", got.ids)
	}
	if w.shelf.asked.Subject != "vera" || w.shelf.asked.Issuer != "https://id.example" {
		t.Errorf("asked for %+v", w.shelf.asked)
	}
	w.do(t, request("GET", "/decisions/"+numbered(42).String()+"?own=true", nil))
	if w.entries[1] != "read decisions.own "+numbered(42).String() {
		t.Errorf("entries %q", w.entries)
	}
	there := w.refuses(t, request("GET", "/decisions/"+numbered(41).String()+"?own=true", nil), 404, "BW-HTTP-404").Body.String()
	none := w.refuses(t, request("GET", "/decisions/"+numbered(7).String()+"?own=true", nil), 404, "BW-HTTP-404").Body.String()
	blank := strings.NewReplacer(numbered(41).String(), "", numbered(7).String(), "", numbered(1003).String(), "", numbered(1004).String(), "")
	if diff := cmp.Diff(blank.Replace(none), blank.Replace(there)); diff != "" {
		t.Errorf("what there is of others' is told: %s", diff)
	}
	// The control: who reads all of the book sees it.
	if rec := w.do(t, request("GET", "/decisions/"+numbered(41).String(), nil)); rec.Code != 200 {
		t.Errorf("control: %d", rec.Code)
	}
	for _, row := range []struct{ name, target string }{
		{"with another subject", "/decisions?own=true&subject=otto"},
		{"with another issuer", "/decisions?own=true&issuer=x"},
		{"behind another's", "/decisions?own=true&after=" + numbered(41).String()},
		{"following behind another's", "/decisions?own=true&follow=true&after=" + numbered(41).String()},
	} {
		t.Run(row.name, func(t *testing.T) { w.refuses(t, request("GET", row.target, nil), 400, "BW-HTTP-400") })
	}
	t.Run("following behind another's, by a cursor that was made up", func(t *testing.T) {
		w := newWorld(t)
		w.list(t, "/decisions?own=true&follow=true")
		made := func(id uuid.UUID) string {
			return "/decisions?own=true&follow=true&cursor=" + cursorOf(listOfFollowing, numbered(1001).String(), w.epoch.String(), id.String())
		}
		w.list(t, made(numbered(40)))
		w.refuses(t, request("GET", made(numbered(41)), nil), 400, "BW-HTTP-400")
		w.refuses(t, request("GET", made(numbered(7)), nil), 400, "BW-HTTP-400")
	})
	t.Run("a name the book cannot tell from others", func(t *testing.T) {
		w := newWorld(t)
		w.caller.Subject = strings.Repeat("x", 600)
		w.refuses(t, request("GET", "/decisions?own=true", nil), 400, "BW-HTTP-400")
	})
}

func TestParametersThatMakeNoSenseAreRefused(t *testing.T) {
	for _, query := range []string{
		"verdict=maybe", "kind=x", "code=%20", "digest=aa", "change=" + apr, "attempt=x", "epoch={" + att + "}", "since=today", "order=up",
		"since=2026-09-02T00:00:00Z&until=2026-09-01T00:00:00Z", "wait=5s", "follow=true&wait=61s", "follow=true&wait=05s", "follow=true&order=oldest", "follow=maybe",
		"limit=0", "limit=501", "verdict=allow&verdict=deny", "after=x", "after=" + att + "&cursor=x", "machine=", "path=" + strings.Repeat("x", 513), "who=vera",
		strings.Repeat("&digest=sha256:aa", audit.MaxDigests+1), "after=" + numbered(7).String(),
	} {
		newWorld(t).refuses(t, request("GET", "/decisions?"+query, nil), 400, "BW-HTTP-400")
	}
}

func TestEverythingAskedReachesTheBook(t *testing.T) {
	w := newWorld(t)
	w.list(t, "/decisions?machine="+numbered(1).String()+"&cluster=c&subject=s&issuer=i&digest=sha256:aa&digest=sha256:bb&path=machine.sysctls&code=BW-MODE-002"+
		"&verdict=deny&kind=rpc&class=apply&method=/m&change="+chg+"&attempt="+att+"&epoch="+numbered(99).String()+
		"&since=2026-09-01T00:00:00Z&until=2026-09-02T02:00:00%2B02:00&order=oldest&limit=7")
	want := audit.Filter{
		MachineID: numbered(1), Machine: "worker-1", Cluster: "c", Subject: "s", Issuer: "i", Digests: []string{"sha256:aa", "sha256:bb"}, Path: "machine.sysctls",
		Code: "BW-MODE-002", Verdict: audit.Denied, Kind: audit.KindRPC, Class: "apply", Method: "/m", ChangeID: chg, AttemptID: uuid.MustParse(att), Epoch: numbered(99),
		Since: begin.Truncate(24 * time.Hour), Until: begin.Truncate(24 * time.Hour).Add(24 * time.Hour),
	}
	if diff := cmp.Diff(want, w.shelf.asked); diff != "" || w.shelf.page.Limit != 7 || w.shelf.page.Order != audit.OldestFirst {
		t.Errorf("%s, page %+v", diff, w.shelf.page)
	}
}

func TestWhatMayBeAPasswordIsNotKept(t *testing.T) {
	w := newWorld(t)
	w.list(t, "/decisions?subject="+strings.Repeat("aB3", 20)+"&machine=worker-1")
	if strings.Contains(w.entries[0], "aB3") || !strings.Contains(w.entries[0], "machine=worker-1 subject=(no name)") {
		t.Errorf("entries %q", w.entries)
	}
}

func TestAProofThatCannotBeGivenSaysWhatToDo(t *testing.T) {
	for _, row := range []struct {
		err    error
		status int
		code   string
	}{
		{tree.ErrNotSigned, 409, "BW-HTTP-409"}, {tree.ErrNotFound, 404, "BW-HTTP-404"}, {tree.ErrBroken, 500, "BW-HTTP-500"}, {errors.New("no connection"), 503, "BW-HTTP-503"},
	} {
		w := newWorld(t)
		w.shelf.prove = row.err
		w.refuses(t, request("GET", "/decisions/"+numbered(42).String()+"/proof", nil), row.status, row.code)
	}
}

// following sends a request that follows with a wait, within a bubble.
func following(t *testing.T, w *world, target string) (*httptest.ResponseRecorder, chan struct{}) {
	rec, done := httptest.NewRecorder(), make(chan struct{})
	go func() {
		defer close(done)
		w.handler.ServeHTTP(rec, request("GET", target, nil))
	}()
	synctest.Wait()
	return rec, done
}

func TestFollowingGivesWhatComesOnceAndWaitsForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.shelf.waits[numbered(42)] = true
		const target = "/decisions?follow=true&wait=30s"
		rec, done := following(t, w, target+"&after="+numbered(42).String())
		time.Sleep(2 * time.Second)
		w.mu.Lock()
		w.shelf.waits = map[uuid.UUID]bool{}
		w.shelf.rows = append(w.shelf.rows, shelved(numbered(43), "otto", begin))
		w.mu.Unlock()
		<-done
		got := listedOf(t, rec)
		if !cmp.Equal(got.ids, []string{numbered(43).String()}) {
			t.Fatalf("got %q, want what came behind an entry that waited for its place", got.ids)
		}
		began := time.Now()
		rec, done = following(t, w, target+"&cursor="+got.next)
		<-done
		if empty := listedOf(t, rec); len(empty.ids) != 0 || empty.next == "" || time.Since(began) != 30*time.Second || len(w.entries) != 1 {
			t.Errorf("got %q after %s, entries %q", empty.ids, time.Since(began), w.entries)
		}
	})
}

func TestFollowingEndsWithTheServerAndWithAuthority(t *testing.T) {
	for _, row := range []struct {
		name   string
		end    func(*world)
		status int
	}{
		{"the server", func(w *world) { close(w.stop) }, 200},
		{"a revocation", func(w *world) {
			w.revoked = append(w.revoked, control.IdentityRevocation{Person: policy.Person{Issuer: "https://id.example", Subject: "vera"}})
		}, 403},
		{"the proof", func(w *world) { w.now = begin.Add(2 * time.Hour) }, 401},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				rec, done := following(t, w, "/decisions?follow=true&wait=30s")
				w.mu.Lock()
				row.end(w)
				w.mu.Unlock()
				began := time.Now()
				<-done
				if rec.Code != row.status || time.Since(began) > time.Second {
					t.Errorf("got %d %s after %s", rec.Code, rec.Body, time.Since(began))
				}
			})
		})
	}
}

func TestATreesGrowthIsProven(t *testing.T) {
	w := newWorld(t)
	var got struct {
		Tree     int32
		From, To int64
		Hashes   [][]byte
	}
	rec := httptest.NewRecorder()
	w.handler.ServeHTTP(rec, request("GET", "/checkpoints/consistency?tree=2&from=1&to=2", nil))
	if err := json.Unmarshal(rec.Body.Bytes(), &got); err != nil || got.Tree != 2 || got.From != 1 || got.To != 2 || len(got.Hashes) != 2 || len(got.Hashes[1]) != 32 || got.Hashes[1][0] != 2 {
		t.Errorf("%v, %s", err, rec.Body)
	}
	for target, status := range map[string]int{
		"?tree=2&from=1": 400, "?from=1&to=2": 400, "?tree=2&from=2&to=1": 400, "?tree=0&from=1&to=2": 400, "?tree=2&from=x&to=2": 400,
		"?tree=2147483648&from=1&to=2": 400, "?tree=2&from=1&to=281474976710657": 400, "?tree=2&from=1&to=2&limit=1": 400,
		"?tree=2&from=1&to=3": 409, "?tree=3&from=1&to=2": 409,
	} {
		w.refuses(t, request("GET", "/checkpoints/consistency"+target, nil), status, fmt.Sprintf("BW-HTTP-%d", status))
	}
	w.shelf.prove = errors.New("no connection")
	w.refuses(t, request("GET", "/checkpoints/consistency?tree=2&from=1&to=2", nil), 503, "BW-HTTP-503")
}

func TestCheckpointsOfOlderTrees(t *testing.T) {
	w := newWorld(t)
	for target, want := range map[string]string{"": "n2 n1", "?tree=3": "n2 n1", "?tree=2": "n2 n1", "?tree=1": "n1"} {
		rec := httptest.NewRecorder()
		w.handler.ServeHTTP(rec, request("GET", "/checkpoints"+target, nil))
		var got struct{ Items []struct{ Note string } }
		if err := json.Unmarshal(rec.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		var notes []string
		for _, one := range got.Items {
			notes = append(notes, one.Note)
		}
		if strings.Join(notes, " ") != want {
			t.Errorf("%s gives %v", target, notes)
		}
	}
	w.refuses(t, request("GET", "/checkpoints?tree=0", nil), 400, "BW-HTTP-400")
}
