package httpapi

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEveryPostIsDoneOnceForAKey(t *testing.T) {
	for _, row := range every {
		if row.method != http.MethodPost {
			continue
		}
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t)
			first := w.do(t, takes(t, request(row.method, row.target, row.body, "Idempotency-Key", `"k-1"`)))
			again := w.do(t, request(row.method, row.target, row.body, "Idempotency-Key", "k-1"))
			if first.Code != row.status || first.Header().Get(replayedHeader) != "" {
				t.Fatalf("first: %d %v", first.Code, first.Header())
			}
			if again.Code >= 300 || again.Header().Get(replayedHeader) != "true" {
				t.Errorf("again: %d %v %s", again.Code, again.Header(), again.Body)
			}
			kept := !strings.Contains(row.target, "applications") // whose answer is the attempt as it stands
			if kept && first.Body.String() != again.Body.String() {
				t.Errorf("again %s\nfirst %s", again.Body, first.Body)
			}
			if len(w.did) != 1 || len(w.entries) != 2 {
				t.Errorf("did %q, entries %q", w.did, w.entries)
			}
			if first.Header().Get(DecisionHeader) == again.Header().Get(DecisionHeader) {
				t.Error("the repetition has no entry of its own")
			}
			if w.bodies["k-1"][0] != "POST "+row.target {
				t.Errorf("route %q", w.bodies["k-1"][0])
			}

			// The control: without the key the act is done each time.
			w = newWorld(t)
			w.do(t, request(row.method, row.target, row.body))
			w.do(t, request(row.method, row.target, row.body))
			if len(w.did) != 2 {
				t.Errorf("without a key: did %q", w.did)
			}
		})
	}
}

func TestAKeyIsForOneRequest(t *testing.T) {
	w := newWorld(t)
	reject := "/changes/" + chg + "/rejections"
	w.do(t, request("POST", reject, `{"reason":"no"}`, "Idempotency-Key", "k"))
	w.refuses(t, request("POST", reject, `{"reason":"yes"}`, "Idempotency-Key", "k"), 422, "BW-HTTP-422")
	w.refuses(t, request("POST", "/changes/"+chg+"/cancellations", `{"reason":"no"}`, "Idempotency-Key", "k"), 422, "BW-HTTP-422")
	if diff := cmp.Diff([]string{"reject"}, w.did); diff != "" {
		t.Error(diff)
	}
	w.bodies["k"] = [2]string{"POST " + reject, "digest of a key that is gone"}
	w.refuses(t, request("POST", reject, `{"reason":"no"}`, "Idempotency-Key", "k"), 422, "BW-HTTP-422")
	if !strings.Contains(w.log.String(), "of another key") {
		t.Errorf("the log does not say why: %s", w.log)
	}
}

func TestARepetitionOfAnApplicationIsTheAttemptAsItStands(t *testing.T) {
	w := newWorld(t)
	apply := func() string {
		return w.do(t, request("POST", "/changes/"+chg+"/applications", `{}`, "Idempotency-Key", "k")).Body.String()
	}
	apply()
	w.attempts[0].State, w.attempts[0].Reason = "unresolved", "no answer"
	if again := apply(); !strings.Contains(again, `"state":"unresolved"`) || !strings.Contains(again, `"message":"no answer"`) {
		t.Errorf("again: %s", again)
	}
}

func TestARepetitionIsJudgedAsALook(t *testing.T) {
	w := newWorld(t)
	reject := func() *http.Request {
		return request("POST", "/changes/"+chg+"/rejections", `{"reason":"no"}`, "Idempotency-Key", "k")
	}
	w.do(t, reject())
	w.denies[actChangesRead] = deniedAct{}
	w.refuses(t, reject(), 403, "BW-POLICY-001")
}

func TestARepetitionOfWhichNothingWasKeptIsAFaultOfOurs(t *testing.T) {
	w := newWorld(t)
	w.noRef = true
	submit := func() *http.Request {
		return request("POST", "/changes", `{"machine":"worker-1","configuration":"a","mode":"no-reboot"}`, "Idempotency-Key", "k")
	}
	w.do(t, submit())
	w.refuses(t, submit(), 404, "BW-CHANGE-001") // the zero id is no change
}

func TestKeysOfBadForm(t *testing.T) {
	for _, row := range []struct{ name, key, holds string }{
		{"quote not closed", `"abc`, "does not end with one"},
		{"only a quote", `"`, "does not end with one"},
		{"empty", `""`, "1 to 255 characters, not 0"},
		{"long", strings.Repeat("k", 256), "1 to 255 characters, not 256"},
		{"beyond ASCII", "kлюч", "printable ASCII"},
		{"a tab", "a\tb", "printable ASCII"},
		{"an escape", `"a\"b"`, "printable ASCII"},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t)
			rec := w.refuses(t, request("POST", "/changes/"+chg+"/rejections", `{"reason":"no"}`, "Idempotency-Key", row.key), 400, "BW-HTTP-400")
			if !strings.Contains(rec.Body.String(), row.holds) || len(w.did) > 0 {
				t.Errorf("%s, did %q", rec.Body, w.did)
			}
		})
	}
	t.Run("twice", func(t *testing.T) {
		w := newWorld(t)
		r := request("POST", "/changes/"+chg+"/rejections", `{"reason":"no"}`, "Idempotency-Key", "a")
		r.Header.Add("Idempotency-Key", "b")
		w.refuses(t, r, 400, "BW-HTTP-400")
	})
	t.Run("the longest", func(t *testing.T) {
		w := newWorld(t)
		if rec := w.do(t, request("POST", "/changes/"+chg+"/rejections", `{"reason":"no"}`, "Idempotency-Key", strings.Repeat("k", 255))); rec.Code != 200 {
			t.Errorf("got %d %s", rec.Code, rec.Body)
		}
	})
}

// An act whose store gives another type to keep must fail, and not keep an empty answer.
func TestAnAnswerOfAnotherTypeIsNotKept(t *testing.T) {
	c := &call{door: &door{Config: newWorld(t).config()}, r: request("POST", "/x", "{}", "Idempotency-Key", "k"), route: &route{act: "x"}}
	o := must(once(c, func(int) answer { return notModified }))(t)
	o.Result = "text"
	if _, _, err := o.Answer(); err == nil {
		t.Error("a text was kept for a number")
	}
	o.Result = 4711
	if status, _, err := o.Answer(); err != nil || status != http.StatusNotModified {
		t.Errorf("%d, %v", status, err)
	}
}
