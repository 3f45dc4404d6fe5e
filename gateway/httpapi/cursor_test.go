package httpapi

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"bronzeward/gateway/control"
	"bronzeward/policy"
)

// walk reads a list to its end and gives the ids of its items.
func walk(t *testing.T, w *world, path, id string) (ids []string, pages int) {
	t.Helper()
	cursor := ""
	for {
		target := path
		if cursor != "" {
			target += "&cursor=" + url.QueryEscape(cursor)
		}
		rec := w.do(t, takes(t, request("GET", target, nil)))
		var page struct {
			Items []map[string]any
			Next  string
		}
		if err := json.Unmarshal(rec.Body.Bytes(), &page); err != nil || rec.Code != 200 {
			t.Fatalf("%s: %d %s %v", target, rec.Code, rec.Body, err)
		}
		for _, item := range page.Items {
			ids = append(ids, fmt.Sprint(item[id]))
		}
		pages++
		if cursor = page.Next; cursor == "" {
			return ids, pages
		}
		if pages > 50 {
			t.Fatal("the list does not end")
		}
	}
}

func TestListsAreReadToTheirEndEachItemOnce(t *testing.T) {
	const many = 23
	w := newWorld(t)
	change, attempt, machine := w.changes[0], w.attempts[0], w.machines[0]
	w.changes, w.attempts, w.machines, w.revoked, w.timeline = nil, nil, nil, nil, nil
	var changes, attempts, machines, subjects, times []string
	for i := range many {
		change.ID, attempt.ID, machine.ID, machine.Name = control.ChangeID(numbered(500+i)), numbered(500+i), numbered(500+i), fmt.Sprintf("w%02d", i)
		w.changes, w.attempts, w.machines = append(w.changes, change), append(w.attempts, attempt), append(w.machines, machine)
		w.revoked = append(w.revoked, control.IdentityRevocation{Person: policy.Person{Issuer: "https://id.example", Subject: fmt.Sprintf("s\u202e%d", i)}, Reason: "r"})
		w.timeline = append(w.timeline, control.TimelineItem{At: begin.Add(-time.Duration(i/3) * time.Microsecond), Kind: "observation", ID: numbered(500 + i)})
		changes, attempts, machines = append(changes, change.ID.String()), append(attempts, attempt.ID.String()), append(machines, machine.Name)
		subjects, times = append(subjects, w.revoked[i].Subject), append(times, w.timeline[i].ID.String())
	}
	slices.Reverse(changes) // newest first
	slices.Reverse(attempts)
	slices.Reverse(w.attempts)
	for _, row := range []struct {
		name, path, id string
		want           []string
	}{
		{"changes", "/changes?limit=5", "id", changes},
		{"attempts", "/attempts?limit=5", "id", attempts},
		{"machines", "/machines?limit=5", "name", machines},
		{"revocations", "/identity-revocations?limit=5", "subject", subjects},
		{"timeline", "/machines/w00/timeline?limit=5", "id", times},
	} {
		t.Run(row.name, func(t *testing.T) {
			ids, pages := walk(t, w, row.path, row.id)
			if diff := cmp.Diff(row.want, ids); diff != "" || pages != 5 {
				t.Errorf("%d pages: %s", pages, diff)
			}
			whole, pages := walk(t, w, strings.Replace(row.path, "limit=5", "limit=23", 1), row.id)
			if diff := cmp.Diff(row.want, whole); diff != "" || pages != 1 {
				t.Errorf("in one page: %d pages, %s", pages, diff)
			}
		})
	}
}

func TestCursorsSomebodyMadeAreRefused(t *testing.T) {
	raw := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	for _, row := range []struct{ name, path, cursor string }{
		{"no base64", "/changes", "!!"},
		{"padded", "/changes", "YQ=="},
		{"no key", "/changes", raw("changes")},
		{"empty key", "/changes", raw("changes\x00")},
		{"two keys", "/changes", raw("changes\x00" + chg + "\x00x")},
		{"another kind of id", "/changes", raw("changes\x00" + apr)},
		{"another list", "/attempts", raw("changes\x00" + chg)},
		{"no UUID", "/attempts", raw("attempts\x00x")},
		{"a UUID in another spelling", "/attempts", raw("attempts\x00{" + att + "}")},
		{"not UTF-8", "/machines", raw("machines\x00\xff")},
		{"nobody revoked", "/identity-revocations", raw("identity-revocations\x00x\x00y")},
		{"no time", "/machines/worker-1/timeline", raw("timeline\x00today\x00" + att)},
		{"no id", "/machines/worker-1/timeline", raw("timeline\x002026-09-01T12:00:00Z\x00x")},
		{"long", "/changes", strings.Repeat("a", mostCursor+1)},
	} {
		t.Run(row.name, func(t *testing.T) {
			newWorld(t).refuses(t, request("GET", row.path+"?cursor="+row.cursor, nil), 400, "BW-HTTP-400")
		})
	}
}

func FuzzCursor(f *testing.F) {
	f.Add(cursorOf(listOfChanges, chg), 1)
	f.Add(cursorOf(listOfRevocations, "https://id.example", "vera"), 2)
	f.Add("!!", 1)
	f.Fuzz(func(t *testing.T, text string, parts int) {
		if parts < 1 || parts > 3 {
			t.Skip()
		}
		for _, list := range []string{listOfChanges, listOfMachines, listOfAttempts, listOfRevocations, listOfTimeline, listOfDecisions, listOfFollowing, listOfCheckpoints} {
			key, p := parseCursor(list, parts, text)
			if (key == nil) == (p == nil) {
				t.Fatalf("%q gave both or neither", text)
			}
			// What is taken is what would be given: nobody can spell one cursor in two ways.
			if p == nil && cursorOf(list, key...) != text {
				t.Fatalf("%q is taken as %q", text, key)
			}
		}
	})
}

func FuzzFollowed(f *testing.F) {
	f.Add("1.2")
	f.Add(numbered(1).String())
	f.Add("-1.0")
	f.Fuzz(func(t *testing.T, text string) {
		if at, ok := parseFollowed(text); ok && at.String() != text {
			t.Fatalf("%q is taken as %q", text, at)
		}
	})
}
