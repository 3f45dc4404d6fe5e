package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/gateway/httpapi/api"
)

// Digests of sets as sha256sum makes them of the lines "ID DIGEST".
const (
	digestBoth  = "set-sha256:c1762dbe422228e8c30ddc521d752602558a49413389eda59a24f78981d61aca"
	digestFirst = "set-sha256:a986f9cb5654d2145bf80874e751e41e240fb8dfc114ff01e42dc76d836d2478"
)

// withSet makes a stub know these changes of a set, newest first as the API lists them.
func withSet(t *testing.T, changes ...api.Change) *stub {
	t.Helper()
	s := newStub(t)
	s.knows(changes...)
	s.on("GET /changes", lists(changes...))
	return s
}

// knows makes a stub answer for each of these changes; who asks is abel.
func (s *stub) knows(changes ...api.Change) {
	s.on("GET /whoami", gives(http.StatusOK, api.Caller{Subject: "abel", Issuer: stubIssuer}))
	for _, c := range changes {
		s.on("GET /changes/"+c.ID, gives(http.StatusOK, c))
		s.on("GET /changes/"+c.ID+"/diff", gives(http.StatusOK, diffOf(c)))
	}
	s.on("POST /changes/{id}/approvals", func(w http.ResponseWriter, r *http.Request) {
		v := oneChange().Approvals[0]
		v.ChangeID, v.Self = r.PathValue("id"), []string{}
		gives(http.StatusCreated, api.ApprovalList{Items: []api.Approval{v}})(w, r)
	})
}

// approvedOf are the ids of all changes that an approval was sent for.
func approvedOf(t *testing.T, s *stub) []string {
	t.Helper()
	var out []string
	for _, id := range []string{changeOne, changeTwo, changeThree} {
		for _, act := range posted[api.NewApproval](t, s, "/changes/"+id+"/approvals") {
			out = append(out, id)
			if act.Also != nil {
				for _, also := range *act.Also {
					out = append(out, also.ID)
				}
			}
		}
	}
	return out
}

func TestTheDigestOfASetIsOfEachChangeAndItsDigest(t *testing.T) {
	one, two := oneChange(), otherChange()
	if got := setDigest([]api.Change{one}); got != digestFirst {
		t.Errorf("of one %s, want %s", got, digestFirst)
	}
	for _, order := range [][]api.Change{{one, two}, {two, one}} {
		if got := setDigest(order); got != digestBoth {
			t.Errorf("of both %s, want %s", got, digestBoth)
		}
	}
	two.Digest = digestThree
	if got := setDigest([]api.Change{one, two}); got == digestBoth {
		t.Error("other bytes have the same digest")
	}
}

func TestASetIsApprovedByTheDigestItWasShownWith(t *testing.T) {
	s := withSet(t, otherChange(), oneChange())
	got := runProgram(t, "changes", "approve", "--set", "roll out", "--digest", digestBoth, "--comment", "fine")
	if got.code != cli.ExitOK {
		t.Fatalf("code %d\n%s", got.code, got.errOut)
	}
	golden(t, "approve-set", got)
	want := []api.NewApproval{{Digest: digestOne, Comment: new("fine"), Also: &[]api.AlsoApproved{{ID: changeTwo, Digest: digestTwo}}}}
	if diff := cmp.Diff(want, posted[api.NewApproval](t, s, "/changes/"+changeOne+"/approvals")); diff != "" {
		t.Errorf("approved (-want +got):\n%s", diff)
	}
}

// Who looked at one change does not approve two: what was added to the set since, by anybody,
// makes another digest. None of the refusals has the digest that would do.
func TestASetThatMovedIsNotApproved(t *testing.T) {
	one, two, odd := oneChange(), otherChange(), strange()
	spent := two
	spent.State, spent.AttemptID = api.ChangeStateSpent, attemptA
	other := two
	other.Digest = digestThree
	came, went := "came since: change "+changeTwo+" of worker-2, asked by \\u043elga of", "went since: change "+changeTwo+" of worker-2 is spent by attempt "+attemptA
	narrow := []string{"--requester", one.Requester.Subject}
	for name, row := range map[string]struct {
		now    []api.Change
		digest string
		args   []string
		code   int
		says   []string
		want   []string
	}{
		"control: as it was shown":          {now: []api.Change{two, one}, digest: digestBoth, want: []string{changeOne, changeTwo}},
		"one came":                          {now: []api.Change{two, one}, digest: digestFirst, code: cli.ExitChanged, says: []string{came, "nothing was approved", "try: bronzeward changes show --set 'roll out'\n"}},
		"one came, and it is narrowed":      {now: []api.Change{two, one}, digest: digestFirst, args: narrow, code: cli.ExitChanged, says: []string{came, "try: bronzeward changes show --set 'roll out' --requester"}},
		"one went":                          {now: []api.Change{spent, one}, digest: digestBoth, code: cli.ExitChanged, says: []string{went, "by attempt"}},
		"all went":                          {now: []api.Change{spent}, digest: setDigest([]api.Change{two}), code: cli.ExitChanged, says: []string{went}},
		"one came, one went":                {now: []api.Change{two, ends(one, api.ChangeStateRejected)}, digest: digestFirst, code: cli.ExitChanged, says: []string{came, "went since: change " + changeOne + " of worker-1 is rejected: why not"}},
		"other bytes of a change":           {now: []api.Change{other, one}, digest: digestBoth, code: cli.ExitChanged, says: []string{"cannot be told from that digest", "there now: change " + changeTwo}},
		"somebody else's came":              {now: []api.Change{odd, two, one}, digest: digestBoth, code: cli.ExitChanged, says: []string{"not in that digest: change " + changeThree + " of worker-3, asked by mallory", "changes of 2 requesters: \\u043elga of https://people.example has 2, mallory of https://people.example has 1"}},
		"somebody else's and one's own":     {now: []api.Change{odd, two, one}, digest: digestFirst, code: cli.ExitChanged, says: []string{came, "came since: change " + changeThree}},
		"somebody else's, and narrowed":     {now: []api.Change{odd, two, one}, digest: digestBoth, args: narrow, says: []string{"left alone, asked by mallory of https://people.example: worker-3 (" + changeThree}, want: []string{changeOne, changeTwo}},
		"a digest of several requesters":    {now: []api.Change{odd, two, one}, digest: setDigest([]api.Change{one, two, odd}), code: cli.ExitFailed, says: []string{"2 requesters", "nothing was approved: name one with --requester SUBJECT"}},
		"narrowed to who has nothing there": {now: []api.Change{two, one}, digest: digestBoth, args: []string{"--requester", "otto"}, code: cli.ExitChanged, says: []string{"cannot be told from that digest", "nothing was approved", "show --set 'roll out'\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := withSet(t, row.now...)
			got := runProgram(t, append([]string{"changes", "approve", "--set", "roll out", "--digest", row.digest}, row.args...)...)
			if diff := cmp.Diff(row.want, approvedOf(t, s)); diff != "" || got.code != row.code {
				t.Errorf("code %d, want %d; approved (-want +got):\n%s%s", got.code, row.code, diff, got.errOut)
			}
			for _, says := range row.says {
				if !strings.Contains(got.errOut, says) {
					t.Errorf("does not say %q:\n%s", says, got.errOut)
				}
			}
			if all := got.out + got.errOut; row.code != cli.ExitOK && (strings.Contains(all, "sha256:") || strings.Contains(all, "changes approve")) {
				t.Errorf("a refusal gives what to approve by:\n%s", all)
			}
		})
	}
}

// The command that is printed approves what was shown with it, and nothing that came later.
func TestTheCommandThatIsShownApprovesWhatWasShown(t *testing.T) {
	one, two := oneChange(), otherChange()
	one.Set, two.Set = "labels", "labels"
	for name, row := range map[string]struct {
		later []api.Change
		code  int
		want  []string
	}{
		"nothing came": {later: []api.Change{one}, want: []string{changeOne}},
		"one came":     {later: []api.Change{two, one}, code: cli.ExitChanged},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStub(t)
			s.knows(one, two)
			s.on("GET /changes", lists(one), lists(row.later...))
			shown := runProgram(t, "changes", "show", "--set", "labels")
			_, command, _ := strings.Cut(shown.out, "\n  bronzeward ")
			command, _, _ = strings.Cut(command, "\n")
			if !strings.HasPrefix(command, "changes approve ") {
				t.Fatalf("shows no command to approve:\n%s%s", shown.out, shown.errOut)
			}
			got := runProgram(t, strings.Fields(command)...)
			if diff := cmp.Diff(row.want, approvedOf(t, s)); diff != "" || got.code != row.code {
				t.Errorf("code %d, want %d; approved (-want +got):\n%s%s", got.code, row.code, diff, got.errOut)
			}
		})
	}
}

// On a terminal, too, what comes after the question is not approved by its answer.
func TestAnAnswerApprovesWhatWasShownBeforeTheQuestion(t *testing.T) {
	s := newStub(t)
	s.knows(oneChange(), otherChange())
	s.on("GET /changes", lists(oneChange()), lists(otherChange(), oneChange()))
	got := runAt(t.Context(), cli.Console{In: strings.NewReader("yes\n"), Interactive: true}, "changes", "approve", "--set", "roll out")
	if diff := cmp.Diff([]string{changeOne}, approvedOf(t, s)); diff != "" || got.code != cli.ExitOK {
		t.Errorf("code %d; approved (-want +got):\n%s%s", got.code, diff, got.errOut)
	}
	golden(t, "approve-set-asked", got)
}

func TestASetOfSeveralRequestersIsActedOnOneAtATime(t *testing.T) {
	one, two, odd := oneChange(), otherChange(), strange()
	elsewhere := odd
	elsewhere.Requester = api.Person{Issuer: "https://else.example", Subject: one.Requester.Subject}
	for name, row := range map[string]struct {
		now  []api.Change
		args []string
		code int
		says string
		want []string
	}{
		"two people":                 {now: []api.Change{odd, two, one}, code: cli.ExitFailed, says: "try: bronzeward changes show --set 'roll out' --requester mallory\n"},
		"one of two people":          {now: []api.Change{odd, two, one}, args: []string{"--requester", "mallory"}, says: "left alone, asked by \\u043elga of https://people.example: worker-1 (" + changeOne + "), worker-2", want: []string{changeThree}},
		"two of one subject":         {now: []api.Change{elsewhere, one}, args: []string{"--requester", one.Requester.Subject}, code: cli.ExitFailed, says: "--requester-issuer https://else.example\n"},
		"one of two of that subject": {now: []api.Change{elsewhere, one}, args: []string{"--requester", one.Requester.Subject, "--requester-issuer", stubIssuer}, says: "of https://else.example: worker-3", want: []string{changeOne}},
		"nobody of that name":        {now: []api.Change{two, one}, args: []string{"--requester", "otto"}, code: cli.ExitFailed, says: "no live change of otto"},
		"nothing":                    {code: cli.ExitFailed, says: "no live change\n"},
	} {
		t.Run(name, func(t *testing.T) {
			s := withSet(t, row.now...)
			got := runAt(t.Context(), cli.Console{In: strings.NewReader("yes\n"), Interactive: true}, append([]string{"changes", "approve", "--set", "roll out"}, row.args...)...)
			if diff := cmp.Diff(row.want, approvedOf(t, s)); diff != "" || got.code != row.code || !strings.Contains(got.errOut, row.says) {
				t.Errorf("code %d, want %d and %q; approved (-want +got):\n%s%s", got.code, row.code, row.says, diff, got.errOut)
			}
		})
	}
}

func TestWhatIsApprovedAlreadyIsLeftOutOfASet(t *testing.T) {
	s := withSet(t, otherChange(), oneChange())
	s.mux = http.NewServeMux()
	s.on("GET /changes", lists(otherChange(), oneChange()))
	s.on("GET /whoami", gives(http.StatusOK, api.Caller{Subject: "vera", Issuer: stubIssuer}))
	s.on("GET /changes/{id}", gives(http.StatusOK, otherChange()))
	s.on("POST /changes/{id}/approvals", gives(http.StatusCreated, api.ApprovalList{Items: []api.Approval{}}))
	got := runProgram(t, "changes", "approve", "--set", "roll out", "--digest", digestBoth)
	if got.code != cli.ExitOK || !strings.Contains(got.errOut, "you have approved 1 of these 2 live changes") {
		t.Errorf("code %d\n%s", got.code, got.errOut)
	}
	if diff := cmp.Diff([]string{changeTwo}, approvedOf(t, s)); diff != "" {
		t.Errorf("approved (-want +got):\n%s", diff)
	}
	s.mux = http.NewServeMux()
	s.on("GET /changes", lists(oneChange()))
	s.on("GET /whoami", gives(http.StatusOK, api.Caller{Subject: "vera", Issuer: stubIssuer}))
	if got := runProgram(t, "changes", "approve", "--set", "roll out", "--digest", digestFirst); got.code != cli.ExitFailed || !strings.Contains(got.errOut, "all 1 live changes") {
		t.Errorf("code %d\n%s", got.code, got.errOut)
	}
}

// Another digest in the difference than in the list: what was shown is not what would be
// approved.
func TestTwoDigestsOfOneChangeAreNotApproved(t *testing.T) {
	other := otherChange()
	other.Digest = digestThree
	for name, args := range map[string][]string{"of a set": {"--set", "roll out"}, "of a change": {changeTwo}} {
		t.Run(name, func(t *testing.T) {
			s := newStub(t)
			s.on("GET /changes", lists(other))
			s.on("GET /whoami", gives(http.StatusOK, api.Caller{}))
			s.on("GET /changes/{id}", gives(http.StatusOK, other))
			s.on("GET /changes/{id}/diff", gives(http.StatusOK, diffOf(otherChange())))
			got := runAt(t.Context(), cli.Console{In: strings.NewReader("yes\n"), Interactive: true}, append([]string{"changes", "approve"}, args...)...)
			if got.code != cli.ExitFailed || len(approvedOf(t, s)) != 0 || !strings.Contains(got.errOut, "name two digests") {
				t.Errorf("code %d\n%s", got.code, got.errOut)
			}
		})
	}
}

func TestASetIsShown(t *testing.T) {
	one, two, odd := oneChange(), otherChange(), strange()
	for name, row := range map[string]struct {
		now  []api.Change
		args []string
	}{
		"set-show":          {now: []api.Change{approved(two), one}},
		"set-show-several":  {now: []api.Change{odd, one}},
		"set-show-narrowed": {now: []api.Change{odd, one}, args: []string{"--requester", "mallory"}},
	} {
		t.Run(name, func(t *testing.T) {
			withSet(t, row.now...)
			got := runProgram(t, append([]string{"changes", "show", "--set", "roll out"}, row.args...)...)
			if got.code != cli.ExitOK {
				t.Errorf("code %d", got.code)
			}
			golden(t, name, got)
		})
	}
}

func TestASetIsReadByScripts(t *testing.T) {
	withSet(t, strange(), otherChange(), oneChange())
	got := runProgram(t, "changes", "show", "--set", "roll out", "-o", "json")
	var sets []shownSet
	if err := json.Unmarshal([]byte(got.out), &sets); err != nil {
		t.Fatal(err)
	}
	if len(sets) != 2 || sets[0].Digest != digestBoth || len(sets[0].Changes) != 2 || sets[1].Requester.Subject != "mallory" || sets[1].Changes[0].Diff.Digest != digestThree {
		t.Errorf("sets are %+v", sets)
	}
}

func TestAListGivesTheDigestOfWhatItListsWhole(t *testing.T) {
	const both, partly = "set roll out, 2 live changes of \\u043elga of https://people.example: " + digestBoth + "\n", "this may not be all of the set"
	spent := otherChange()
	spent.State = api.ChangeStateSpent
	two := []api.Change{otherChange(), oneChange()}
	for name, row := range map[string]struct {
		now  []api.Change
		args []string
		want string
	}{
		"all":                {now: two, want: both},
		"live":               {now: two, args: []string{"--live"}, want: both},
		"in JSON":            {now: two, args: []string{"-o", "json"}, want: both},
		"waiting":            {now: two, args: []string{"--state", "waiting"}, want: partly},
		"waiting, approved":  {now: two, args: []string{"--state", "waiting", "--state", "approved"}, want: both},
		"of one machine":     {now: two, args: []string{"-m", "worker-1"}, want: partly},
		"of a later page":    {now: two, args: []string{"--after", "c"}, want: partly},
		"with an ended one":  {now: []api.Change{spent, oneChange()}, want: "set roll out, 1 live change of \\u043elga of https://people.example: " + digestFirst + "\n"},
		"of two requesters":  {now: append([]api.Change{strange()}, two...), want: both},
		"of the other, also": {now: append([]api.Change{strange()}, two...), want: "set roll out, 1 live change of mallory of https://people.example: set-sha256:"},
	} {
		t.Run(name, func(t *testing.T) {
			withSet(t, row.now...)
			got := runProgram(t, append([]string{"changes", "list", "--set", "roll out"}, row.args...)...)
			if got.code != cli.ExitOK || !strings.Contains(got.errOut, row.want) || row.want == partly && strings.Contains(got.errOut, setScheme) {
				t.Errorf("code %d, said\n%swant %q", got.code, got.errOut, row.want)
			}
		})
	}
	s := newStub(t)
	s.on("GET /changes", gives(http.StatusOK, api.ChangeList{Items: two[:1], Next: "c2"}))
	if got := runProgram(t, "changes", "list", "--set", "roll out", "--limit", "1"); !strings.Contains(got.errOut, partly) || strings.Contains(got.errOut, setScheme) {
		t.Errorf("half a set has a digest:\n%s", got.errOut)
	}
}

// What came newest, or alone, and what ended last, or alone, is found again; and whatever is
// said leads from what was shown to what there is.
func TestWhatMovedInASetIsFound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(t, "changes")
		var live, ended []api.Change // oldest first, newest first
		for i := range n {
			c := api.Change{ID: "chg_" + string(rune('a'+i)), Digest: rapid.SampledFrom([]string{"d", "e"}).Draw(t, "digest"), State: api.ChangeStateSpent}
			if rapid.Bool().Draw(t, "live") {
				c.State = api.ChangeStateWaiting
				live = append(live, c)
			} else {
				ended = append([]api.Change{c}, ended...)
			}
		}
		came := rapid.IntRange(0, len(live)).Draw(t, "came")
		went := rapid.IntRange(0, len(ended)).Draw(t, "went")
		before := append(append([]api.Change{}, live[:len(live)-came]...), ended[:went]...)
		if len(before) == 0 {
			t.Skip("nothing was shown")
		}
		gotCame, gotWent, told := whatMoved(live, ended, setDigest(before))
		if !told || len(gotCame) != came || len(gotWent) != went {
			t.Fatalf("told %v: %d came and %d went, want %d and %d", told, len(gotCame), len(gotWent), came, went)
		}
	})
}
