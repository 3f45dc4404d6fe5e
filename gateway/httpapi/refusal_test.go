package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"google.golang.org/grpc/codes"

	"bronzeward/audit"
	"bronzeward/gateway/control"
	"bronzeward/gateway/identity"
	"bronzeward/policy"
)

func TestACredentialIsRefusedBeforeAnythingElseAndCounted(t *testing.T) {
	for _, row := range []struct {
		name         string
		err          error
		status       int
		code         string
		challenge    string
		entry, holds string
	}{
		{
			"none", &identity.Refusal{Class: identity.ClassNoCredential, Message: "log in first"}, 401, "BW-CREDENTIAL-001",
			`Bearer realm="bronzeward"`, "stranger 192.0.2.7 BW-CREDENTIAL-001 no-credential", `"hint":"bronzeward login"`,
		},
		{
			"expired", &identity.Refusal{Class: identity.ClassExpired, Message: "the token has ended"}, 401, "BW-CREDENTIAL-001",
			`Bearer realm="bronzeward", error="invalid_token", error_description="expired"`, "stranger 192.0.2.7 BW-CREDENTIAL-001 expired", `expired: the token has ended","hint":"bronzeward login"`,
		},
		{
			"keys away", &identity.Refusal{Class: identity.ClassKeysUnavailable, Message: "the keys are away"}, 503, "BW-CREDENTIAL-002",
			"", "stranger 192.0.2.7 BW-CREDENTIAL-002 keys-unavailable", "the keys are away",
		},
		{
			"on the deny list", &identity.Refusal{Class: identity.ClassDenyListed, Message: "not wanted"}, 403, "BW-CREDENTIAL-003",
			"", "stranger 192.0.2.7 BW-CREDENTIAL-003 deny-listed", "not wanted",
		},
		{
			"anything else", errors.New("secret cause"), 503, "BW-CREDENTIAL-002",
			"", "stranger 192.0.2.7 BW-CREDENTIAL-002 keys-unavailable", "could not be checked",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			for _, path := range []string{"/changes", "/nowhere", "/machines/x/y", "/changes/not-an-id"} {
				w := newWorld(t)
				w.stranger = row.err
				rec := w.refuses(t, request("POST", path, "not even JSON"), row.status, row.code)
				if got := rec.Header().Get("WWW-Authenticate"); got != row.challenge {
					t.Errorf("challenge %q", got)
				}
				if diff := cmp.Diff([]string{row.entry}, w.entries); diff != "" {
					t.Errorf("entries: %s", diff)
				}
				if !strings.Contains(rec.Body.String(), row.holds) || strings.Contains(rec.Body.String(), "secret cause") {
					t.Errorf("body %s", rec.Body)
				}
			}
		})
	}
}

func TestLimitsTurnAwayByAddressAndByCaller(t *testing.T) {
	w := newWorld(t)
	w.allow = func(address string, c identity.Caller) bool { return address != "192.0.2.7" }
	rec := w.refuses(t, request("GET", "/whoami", nil), 429, "BW-LIMIT-001")
	if len(w.entries) != 0 || rec.Header().Get(DecisionHeader) != "" || rec.Header().Get("Retry-After") != "1" {
		t.Errorf("a flood is not written down: %q, %v", w.entries, rec.Header())
	}
	w.allow = func(_ string, c identity.Caller) bool { return c.Subject != "vera" }
	w.refuses(t, request("GET", "/whoami", nil), 429, "BW-LIMIT-002")
	if diff := cmp.Diff([]string{"stranger 192.0.2.7 BW-LIMIT-002 calls"}, w.entries); diff != "" {
		t.Error(diff)
	}
}

// I2: what cannot be written down is not answered as if it were.
func TestAnythingThatCannotBeWrittenDownIs503(t *testing.T) {
	for _, row := range []struct {
		name string
		set  func(*world)
		r    *http.Request
	}{
		{"a read", nil, request("GET", "/changes", nil)},
		{"an act", nil, request("POST", "/changes/"+chg+"/rejections", `{"reason":"no"}`)},
		{"a malformed body", nil, request("POST", "/changes/"+chg+"/rejections", `{`)},
		{"a path there is not", nil, request("GET", "/nowhere", nil)},
		{"a denial before the body", func(w *world) { w.denies["changes.reject"] = deniedAct{} }, request("POST", "/changes/"+chg+"/rejections", nil)},
		{"a bad credential", func(w *world) { w.stranger = &identity.Refusal{Class: identity.ClassExpired} }, request("GET", "/whoami", nil)},
		{"too many", func(w *world) { w.allow = func(_ string, c identity.Caller) bool { return c.Subject == "" } }, request("GET", "/whoami", nil)},
		{"a panic", func(w *world) { w.allow = func(_ string, c identity.Caller) bool { panic("ouch") } }, request("GET", "/whoami", nil)},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t)
			w.bookAway = control.ErrUnavailable
			if row.set != nil {
				row.set(w)
			}
			rec := w.refuses(t, row.r, 503, "BW-BOOK-001")
			if got := rec.Header().Get(DecisionHeader); got != "" || len(w.did) > 0 {
				t.Errorf("entry %q, did %q", got, w.did)
			}
		})
	}
}

// refusedAct is an error like those the acts make.
type refusedAct struct {
	c  codes.Code
	id uuid.UUID
}

func (r refusedAct) Error() string { return "refused, and this text is not shown" }

func (r refusedAct) Refusal() (codes.Code, audit.Receipt, string, string, []string) {
	return r.c, audit.Receipt{ID: r.id}, "BW-TEST-001", "the sentence", []string{"", "the hint"}
}

// deniedAct is a law's refusal.
type deniedAct struct{ reasons []policy.Reason }

func (d deniedAct) Error() string { return "denied" }

func (d deniedAct) Denial() (policy.Decision, audit.Receipt) {
	return policy.Decision{Reasons: d.reasons}, receiptOf(numbered(55))
}

func deny(code, message string) policy.Reason {
	return policy.Reason{Code: code, Message: message, Severity: policy.SeverityDeny, Hint: "ask an approver"}
}

func TestEachErrorOfAnActHasItsStatusAndIsWrittenDown(t *testing.T) {
	own := numbered(55).String()
	for _, row := range []struct {
		name   string
		err    error
		status int
		code   string
		entry  string // of its own; empty when the door records it
		holds  string
	}{
		{"denied", deniedAct{[]policy.Reason{deny("BW-ACT-003", "no role"), deny("BW-ACT-005", "ended")}}, 403, "BW-ACT-003", own, `"also":[{"code":"BW-ACT-005","message":"ended"}]`},
		{"denied without a reason", deniedAct{}, 403, "BW-POLICY-001", own, "no rule allows this"},
		{"denied, wrapped", fmt.Errorf("acting: %w", deniedAct{[]policy.Reason{deny("BW-ACT-001", "revoked")}}), 403, "BW-ACT-001", own, "ask an approver"},
		{"away", refusedAct{codes.Unavailable, numbered(55)}, 503, "BW-TEST-001", own, "the hint"},
		{"late", refusedAct{codes.DeadlineExceeded, uuid.Nil}, 504, "BW-TEST-001", "", "the sentence"},
		{"aborted", refusedAct{codes.Aborted, uuid.Nil}, 409, "BW-TEST-001", "", ""},
		{"precondition", refusedAct{codes.FailedPrecondition, uuid.Nil}, 409, "BW-TEST-001", "", ""},
		{"exhausted", refusedAct{codes.ResourceExhausted, uuid.Nil}, 429, "BW-TEST-001", "", ""},
		{"argument", refusedAct{codes.InvalidArgument, uuid.Nil}, 400, "BW-TEST-001", "", ""},
		{"credential", refusedAct{codes.Unauthenticated, uuid.Nil}, 401, "BW-TEST-001", "", ""},
		{"forbidden", refusedAct{codes.PermissionDenied, uuid.Nil}, 403, "BW-TEST-001", "", ""},
		{"found", refusedAct{codes.NotFound, uuid.Nil}, 404, "BW-TEST-001", "", ""},
		{"internal", refusedAct{codes.Internal, uuid.Nil}, 500, "BW-TEST-001", "", ""},
		{"no such change", &control.ChangeError{Code: "BW-CHANGE-001", Message: "there is none"}, 404, "BW-CHANGE-001", "", "there is none"},
		{"not live", &control.ChangeError{Code: "BW-CHANGE-002", Message: "it is spent", Hint: "look"}, 409, "BW-CHANGE-002", "", `"hint":"look"`},
		{"another digest", &control.ChangeError{Code: "BW-CHANGE-003", Message: "the digest is another"}, 409, "BW-CHANGE-003", "", ""},
		{"too many waiting", &control.ChangeError{Code: "BW-CHANGE-004", Message: "five"}, 429, "BW-CHANGE-004", "", ""},
		{"not to be opened", &control.ChangeError{Code: "BW-CHANGE-005", Message: "sealed"}, 503, "BW-CHANGE-005", "", ""},
		{"other bytes", &control.ChangeError{Code: "BW-CHANGE-006", Message: "odd"}, 500, "BW-CHANGE-006", "", ""},
		{"twice", &control.ChangeError{Code: "BW-CHANGE-007", Message: "again"}, 409, "BW-CHANGE-007", "", ""},
		{"invalid", fmt.Errorf("%w: because", control.ErrInvalid), 400, "BW-HTTP-400", "", "because"},
		{"not found", fmt.Errorf("reading: %w", control.ErrNotFound), 404, "BW-HTTP-404", "", ""},
		{"conflict", fmt.Errorf("adding: %w: w1", control.ErrConflict), 409, "BW-HTTP-409", "", "w1"},
		{"too early", control.ErrTooEarly, 409, "BW-HTTP-409", "", ""},
		{"no observation", control.ErrNoObservation, 409, "BW-HTTP-409", "", ""},
		{"contradicted", control.ErrContradicted, 409, "BW-HTTP-409", "", ""},
		{"not the owner", control.ErrNotOwner, 409, "BW-HTTP-409", "", ""},
		{"moved", control.ErrMoved, 409, "BW-HTTP-409", "", ""},
		{"busy", &control.BusyError{Holder: numbered(5), Since: begin, Scope: "machine"}, 409, "BW-HOLDS-001", "", "attempts show"},
		{"in flight", &control.InFlightError{AttemptID: numbered(5)}, 409, "BW-ATTEMPT-001", "", ""},
		{"guard", &control.GuardError{Guard: "changes_step", Message: "secret cause"}, 409, "BW-INVARIANT-016", "", "changes_step"},
		{"refused", &control.RefusedError{Receipt: receiptOf(numbered(55))}, 403, "BW-POLICY-001", own, ""},
		{"key reused", control.ErrKeyReused, 422, "BW-HTTP-422", "", ""},
		{"database away", fmt.Errorf("%w: doing: secret cause", control.ErrUnavailable), 503, "BW-BOOK-001", "", ""},
		{"store closed", control.ErrClosed, 503, "BW-BOOK-001", "", ""},
		{"commit unknown", &control.CommitUnknownError{EntryID: numbered(55), Cause: errors.New("secret cause")}, 503, "BW-BOOK-001", own, "may not have been"},
		{"anything else", errors.New("secret cause"), 500, "BW-HTTP-500", "", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t)
			w.fails = row.err
			rec := w.refuses(t, request("POST", "/changes/"+chg+"/applications", `{}`), row.status, row.code)
			want, entries := row.entry, []string(nil)
			if want == "" {
				want, entries = numbered(1001).String(), []string{"refused changes.apply " + chg + " " + row.code}
			}
			if got := rec.Header().Get(DecisionHeader); got != want || !strings.Contains(rec.Body.String(), `"decision":"`+want+`"`) {
				t.Errorf("entry %q, want %q: %s", got, want, rec.Body)
			}
			if diff := cmp.Diff(entries, slices.Clip(w.entries)); diff != "" {
				t.Errorf("entries: %s", diff)
			}
			if got, early := rec.Header().Get("Retry-After"), errors.Is(row.err, control.ErrTooEarly); row.status == 409 && (got == "30") != early {
				t.Errorf("it is said to be worth another try after %q seconds", got)
			}
			if body := rec.Body.String(); !strings.Contains(body, row.holds) || strings.Contains(body, "secret cause") || strings.Contains(body, "not shown") {
				t.Errorf("body %s", body)
			}
			if cause := "secret cause"; strings.Contains(row.err.Error(), cause) && !strings.Contains(w.log.String(), cause) {
				t.Errorf("the log does not say why: %s", w.log)
			}
		})
	}
}

func TestAReadThatFailsKeepsTheEntryItHas(t *testing.T) {
	w := newWorld(t)
	w.read = control.ErrUnavailable
	rec := w.refuses(t, request("GET", "/machines", nil), 503, "BW-BOOK-001")
	if diff := cmp.Diff([]string{"read machines.read "}, w.entries); diff != "" || rec.Header().Get(DecisionHeader) == "" {
		t.Errorf("%s %v", diff, rec.Header())
	}
}

func TestAReadThatIsDeniedReadsNothing(t *testing.T) {
	w := newWorld(t)
	for _, rt := range (&door{}).routes() {
		w.denies[rt.act] = deniedAct{[]policy.Reason{deny("BW-ACT-003", "no role")}}
	}
	for _, row := range every {
		if row.method == http.MethodGet {
			w.refuses(t, request("GET", row.target, nil), 403, "BW-ACT-003")
		}
	}
	if w.looked != 0 {
		t.Errorf("the store was read %d times", w.looked)
	}
}

func TestAPanicEndsOneRequestAndIsWrittenDown(t *testing.T) {
	w := newWorld(t)
	w.allow = func(_ string, c identity.Caller) bool {
		if c.Subject != "" {
			panic("secret cause")
		}
		return true
	}
	rec := w.refuses(t, request("GET", "/whoami", nil), 500, "BW-HTTP-500")
	if strings.Contains(rec.Body.String()+w.log.String(), "secret cause") || !strings.Contains(w.log.String(), "refusal_test.go") || len(w.entries) != 1 {
		t.Errorf("%s %q %s", rec.Body, w.entries, w.log)
	}
}

func TestAnActOfAPersonWhoHasGoneIsWrittenDownAllTheSame(t *testing.T) {
	w := newWorld(t)
	r := request("POST", "/changes/"+chg+"/rejections", `{`)
	ctx, cancel := contextOf(r)
	cancel()
	w.do(t, r.WithContext(ctx))
	if len(w.entries) != 1 {
		t.Errorf("entries %q", w.entries)
	}
}
