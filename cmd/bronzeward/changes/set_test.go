package changes

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/cmd/bronzeward/clitest"
	"bronzeward/gateway/httpapi/api"
)

// Digests of sets as sha256sum makes them of the lines "ID DIGEST".
const (
	digestBoth  = "set-sha256:c1762dbe422228e8c30ddc521d752602558a49413389eda59a24f78981d61aca"
	digestFirst = "set-sha256:a986f9cb5654d2145bf80874e751e41e240fb8dfc114ff01e42dc76d836d2478"
)

// withSet makes a stub know these changes of a set, newest first as the API lists them.
func withSet(t *testing.T, changes ...api.Change) *clitest.Stub {
	t.Helper()
	s := clitest.NewStub(t)
	knows(s, changes...)
	s.On("GET /changes", clitest.Lists(changes...))
	return s
}

// knows makes a stub answer for each of these changes; who asks is abel.
func knows(s *clitest.Stub, changes ...api.Change) {
	s.On("GET /whoami", clitest.Gives(http.StatusOK, api.Caller{Subject: "abel", Issuer: clitest.StubIssuer}))
	for _, c := range changes {
		s.On("GET /changes/"+c.ID, clitest.Gives(http.StatusOK, c))
		s.On("GET /changes/"+c.ID+"/diff", clitest.Gives(http.StatusOK, clitest.DiffOf(c)))
	}
	s.On("POST /changes/{id}/approvals", func(w http.ResponseWriter, r *http.Request) {
		v := clitest.OneChange().Approvals[0]
		v.ChangeID, v.Self = r.PathValue("id"), []string{}
		clitest.Gives(http.StatusCreated, api.ApprovalList{Items: []api.Approval{v}})(w, r)
	})
}

// approvedOf are the ids of all changes that an approval was sent for.
func approvedOf(t *testing.T, s *clitest.Stub) []string {
	t.Helper()
	var out []string
	for _, id := range []string{clitest.ChangeOne, clitest.ChangeTwo, clitest.ChangeThree} {
		for _, act := range clitest.Posted[api.NewApproval](t, s, "/changes/"+id+"/approvals") {
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
	one, two := clitest.OneChange(), clitest.OtherChange()
	if got := setDigest([]api.Change{one}); got != digestFirst {
		t.Errorf("of one %s, want %s", got, digestFirst)
	}
	for _, order := range [][]api.Change{{one, two}, {two, one}} {
		if got := setDigest(order); got != digestBoth {
			t.Errorf("of both %s, want %s", got, digestBoth)
		}
	}
	two.Digest = clitest.DigestThree
	if got := setDigest([]api.Change{one, two}); got == digestBoth {
		t.Error("other bytes have the same digest")
	}
}

func TestASetIsApprovedByTheDigestItWasShownWith(t *testing.T) {
	s := withSet(t, clitest.OtherChange(), clitest.OneChange())
	got := runProgram(t, "changes", "approve", "--set", "roll out", "--digest", digestBoth, "--comment", "fine")
	if got.Code != cli.ExitOK {
		t.Fatalf("code %d\n%s", got.Code, got.ErrOut)
	}
	clitest.Golden(t, "approve-set", got)
	want := []api.NewApproval{{Digest: clitest.DigestOne, Comment: new("fine"), Also: &[]api.AlsoApproved{{ID: clitest.ChangeTwo, Digest: clitest.DigestTwo}}}}
	if diff := cmp.Diff(want, clitest.Posted[api.NewApproval](t, s, "/changes/"+clitest.ChangeOne+"/approvals")); diff != "" {
		t.Errorf("approved (-want +got):\n%s", diff)
	}
}

// Who looked at one change does not approve two: what was added to the set since, by anybody,
// makes another digest. None of the refusals has the digest that would do.
func TestASetThatMovedIsNotApproved(t *testing.T) {
	one, two, odd := clitest.OneChange(), clitest.OtherChange(), clitest.Strange()
	spent := two
	spent.State, spent.AttemptID = api.ChangeStateSpent, clitest.AttemptA
	other := two
	other.Digest = clitest.DigestThree
	came, went := "came since: change "+clitest.ChangeTwo+" of worker-2, asked by \\u043elga of", "went since: change "+clitest.ChangeTwo+" of worker-2 is spent by attempt "+clitest.AttemptA
	narrow := []string{"--requester", one.Requester.Subject}
	for name, row := range map[string]struct {
		now    []api.Change
		digest string
		args   []string
		code   int
		says   []string
		want   []string
	}{
		"control: as it was shown":          {now: []api.Change{two, one}, digest: digestBoth, want: []string{clitest.ChangeOne, clitest.ChangeTwo}},
		"one came":                          {now: []api.Change{two, one}, digest: digestFirst, code: cli.ExitChanged, says: []string{came, "nothing was approved", "try: bronzeward changes show --set 'roll out'\n"}},
		"one came, and it is narrowed":      {now: []api.Change{two, one}, digest: digestFirst, args: narrow, code: cli.ExitChanged, says: []string{came, "try: bronzeward changes show --set 'roll out' --requester"}},
		"one went":                          {now: []api.Change{spent, one}, digest: digestBoth, code: cli.ExitChanged, says: []string{went, "by attempt"}},
		"all went":                          {now: []api.Change{spent}, digest: setDigest([]api.Change{two}), code: cli.ExitChanged, says: []string{went}},
		"one came, one went":                {now: []api.Change{two, ends(one, api.ChangeStateRejected)}, digest: digestFirst, code: cli.ExitChanged, says: []string{came, "went since: change " + clitest.ChangeOne + " of worker-1 is rejected: why not"}},
		"other bytes of a change":           {now: []api.Change{other, one}, digest: digestBoth, code: cli.ExitChanged, says: []string{"cannot be told from that digest", "there now: change " + clitest.ChangeTwo}},
		"somebody else's came":              {now: []api.Change{odd, two, one}, digest: digestBoth, code: cli.ExitChanged, says: []string{"not in that digest: change " + clitest.ChangeThree + " of worker-3, asked by mallory", "changes of 2 requesters: \\u043elga of https://people.example has 2, mallory of https://people.example has 1"}},
		"somebody else's and one's own":     {now: []api.Change{odd, two, one}, digest: digestFirst, code: cli.ExitChanged, says: []string{came, "came since: change " + clitest.ChangeThree}},
		"somebody else's, and narrowed":     {now: []api.Change{odd, two, one}, digest: digestBoth, args: narrow, says: []string{"left alone, asked by mallory of https://people.example: worker-3 (" + clitest.ChangeThree}, want: []string{clitest.ChangeOne, clitest.ChangeTwo}},
		"a digest of several requesters":    {now: []api.Change{odd, two, one}, digest: setDigest([]api.Change{one, two, odd}), code: cli.ExitFailed, says: []string{"2 requesters", "nothing was approved: name one with --requester SUBJECT"}},
		"narrowed to who has nothing there": {now: []api.Change{two, one}, digest: digestBoth, args: []string{"--requester", "otto"}, code: cli.ExitChanged, says: []string{"cannot be told from that digest", "nothing was approved", "show --set 'roll out'\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := withSet(t, row.now...)
			got := runProgram(t, append([]string{"changes", "approve", "--set", "roll out", "--digest", row.digest}, row.args...)...)
			if diff := cmp.Diff(row.want, approvedOf(t, s)); diff != "" || got.Code != row.code {
				t.Errorf("code %d, want %d; approved (-want +got):\n%s%s", got.Code, row.code, diff, got.ErrOut)
			}
			for _, says := range row.says {
				if !strings.Contains(got.ErrOut, says) {
					t.Errorf("does not say %q:\n%s", says, got.ErrOut)
				}
			}
			if all := got.Out + got.ErrOut; row.code != cli.ExitOK && (strings.Contains(all, "sha256:") || strings.Contains(all, "changes approve")) {
				t.Errorf("a refusal gives what to approve by:\n%s", all)
			}
		})
	}
}

// The command that is printed approves what was shown with it, and nothing that came later.
func TestTheCommandThatIsShownApprovesWhatWasShown(t *testing.T) {
	one, two := clitest.OneChange(), clitest.OtherChange()
	one.Set, two.Set = "labels", "labels"
	for name, row := range map[string]struct {
		later []api.Change
		code  int
		want  []string
	}{
		"nothing came": {later: []api.Change{one}, want: []string{clitest.ChangeOne}},
		"one came":     {later: []api.Change{two, one}, code: cli.ExitChanged},
	} {
		t.Run(name, func(t *testing.T) {
			s := clitest.NewStub(t)
			knows(s, one, two)
			s.On("GET /changes", clitest.Lists(one), clitest.Lists(row.later...))
			shown := runProgram(t, "changes", "show", "--set", "labels")
			_, command, _ := strings.Cut(shown.Out, "\n  bronzeward ")
			command, _, _ = strings.Cut(command, "\n")
			if !strings.HasPrefix(command, "changes approve ") {
				t.Fatalf("shows no command to approve:\n%s%s", shown.Out, shown.ErrOut)
			}
			got := runProgram(t, strings.Fields(command)...)
			if diff := cmp.Diff(row.want, approvedOf(t, s)); diff != "" || got.Code != row.code {
				t.Errorf("code %d, want %d; approved (-want +got):\n%s%s", got.Code, row.code, diff, got.ErrOut)
			}
		})
	}
}

// On a terminal, too, what comes after the question is not approved by its answer.
func TestAnAnswerApprovesWhatWasShownBeforeTheQuestion(t *testing.T) {
	s := clitest.NewStub(t)
	knows(s, clitest.OneChange(), clitest.OtherChange())
	s.On("GET /changes", clitest.Lists(clitest.OneChange()), clitest.Lists(clitest.OtherChange(), clitest.OneChange()))
	got := runAt(t.Context(), cli.Console{In: strings.NewReader("yes\n"), Interactive: true}, "changes", "approve", "--set", "roll out")
	if diff := cmp.Diff([]string{clitest.ChangeOne}, approvedOf(t, s)); diff != "" || got.Code != cli.ExitOK {
		t.Errorf("code %d; approved (-want +got):\n%s%s", got.Code, diff, got.ErrOut)
	}
	clitest.Golden(t, "approve-set-asked", got)
}

func TestASetOfSeveralRequestersIsActedOnOneAtATime(t *testing.T) {
	one, two, odd := clitest.OneChange(), clitest.OtherChange(), clitest.Strange()
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
		"one of two people":          {now: []api.Change{odd, two, one}, args: []string{"--requester", "mallory"}, says: "left alone, asked by \\u043elga of https://people.example: worker-1 (" + clitest.ChangeOne + "), worker-2", want: []string{clitest.ChangeThree}},
		"two of one subject":         {now: []api.Change{elsewhere, one}, args: []string{"--requester", one.Requester.Subject}, code: cli.ExitFailed, says: "--requester-issuer https://else.example\n"},
		"one of two of that subject": {now: []api.Change{elsewhere, one}, args: []string{"--requester", one.Requester.Subject, "--requester-issuer", clitest.StubIssuer}, says: "of https://else.example: worker-3", want: []string{clitest.ChangeOne}},
		"nobody of that name":        {now: []api.Change{two, one}, args: []string{"--requester", "otto"}, code: cli.ExitFailed, says: "no live change of otto"},
		"nothing":                    {code: cli.ExitFailed, says: "no live change\n"},
	} {
		t.Run(name, func(t *testing.T) {
			s := withSet(t, row.now...)
			got := runAt(t.Context(), cli.Console{In: strings.NewReader("yes\n"), Interactive: true}, append([]string{"changes", "approve", "--set", "roll out"}, row.args...)...)
			if diff := cmp.Diff(row.want, approvedOf(t, s)); diff != "" || got.Code != row.code || !strings.Contains(got.ErrOut, row.says) {
				t.Errorf("code %d, want %d and %q; approved (-want +got):\n%s%s", got.Code, row.code, row.says, diff, got.ErrOut)
			}
		})
	}
}

func TestWhatIsApprovedAlreadyIsLeftOutOfASet(t *testing.T) {
	s := withSet(t, clitest.OtherChange(), clitest.OneChange())
	s.Mux = http.NewServeMux()
	s.On("GET /changes", clitest.Lists(clitest.OtherChange(), clitest.OneChange()))
	s.On("GET /whoami", clitest.Gives(http.StatusOK, api.Caller{Subject: "vera", Issuer: clitest.StubIssuer}))
	s.On("GET /changes/{id}", clitest.Gives(http.StatusOK, clitest.OtherChange()))
	s.On("POST /changes/{id}/approvals", clitest.Gives(http.StatusCreated, api.ApprovalList{Items: []api.Approval{}}))
	got := runProgram(t, "changes", "approve", "--set", "roll out", "--digest", digestBoth)
	if got.Code != cli.ExitOK || !strings.Contains(got.ErrOut, "you have approved 1 of these 2 live changes") {
		t.Errorf("code %d\n%s", got.Code, got.ErrOut)
	}
	if diff := cmp.Diff([]string{clitest.ChangeTwo}, approvedOf(t, s)); diff != "" {
		t.Errorf("approved (-want +got):\n%s", diff)
	}
	s.Mux = http.NewServeMux()
	s.On("GET /changes", clitest.Lists(clitest.OneChange()))
	s.On("GET /whoami", clitest.Gives(http.StatusOK, api.Caller{Subject: "vera", Issuer: clitest.StubIssuer}))
	if got := runProgram(t, "changes", "approve", "--set", "roll out", "--digest", digestFirst); got.Code != cli.ExitFailed || !strings.Contains(got.ErrOut, "all 1 live changes") {
		t.Errorf("code %d\n%s", got.Code, got.ErrOut)
	}
}

// Another digest in the difference than in the list: what was shown is not what would be
// approved.
func TestTwoDigestsOfOneChangeAreNotApproved(t *testing.T) {
	other := clitest.OtherChange()
	other.Digest = clitest.DigestThree
	for name, args := range map[string][]string{"of a set": {"--set", "roll out"}, "of a change": {clitest.ChangeTwo}} {
		t.Run(name, func(t *testing.T) {
			s := clitest.NewStub(t)
			s.On("GET /changes", clitest.Lists(other))
			s.On("GET /whoami", clitest.Gives(http.StatusOK, api.Caller{}))
			s.On("GET /changes/{id}", clitest.Gives(http.StatusOK, other))
			s.On("GET /changes/{id}/diff", clitest.Gives(http.StatusOK, clitest.DiffOf(clitest.OtherChange())))
			got := runAt(t.Context(), cli.Console{In: strings.NewReader("yes\n"), Interactive: true}, append([]string{"changes", "approve"}, args...)...)
			if got.Code != cli.ExitFailed || len(approvedOf(t, s)) != 0 || !strings.Contains(got.ErrOut, "name two digests") {
				t.Errorf("code %d\n%s", got.Code, got.ErrOut)
			}
		})
	}
}

func TestASetIsShown(t *testing.T) {
	one, two, odd := clitest.OneChange(), clitest.OtherChange(), clitest.Strange()
	for name, row := range map[string]struct {
		now  []api.Change
		args []string
	}{
		"set-show":          {now: []api.Change{clitest.Approved(two), one}},
		"set-show-several":  {now: []api.Change{odd, one}},
		"set-show-narrowed": {now: []api.Change{odd, one}, args: []string{"--requester", "mallory"}},
	} {
		t.Run(name, func(t *testing.T) {
			withSet(t, row.now...)
			got := runProgram(t, append([]string{"changes", "show", "--set", "roll out"}, row.args...)...)
			if got.Code != cli.ExitOK {
				t.Errorf("code %d", got.Code)
			}
			clitest.Golden(t, name, got)
		})
	}
}

func TestASetIsReadByScripts(t *testing.T) {
	withSet(t, clitest.Strange(), clitest.OtherChange(), clitest.OneChange())
	got := runProgram(t, "changes", "show", "--set", "roll out", "-o", "json")
	var sets []shownSet
	if err := json.Unmarshal([]byte(got.Out), &sets); err != nil {
		t.Fatal(err)
	}
	if len(sets) != 2 || sets[0].Digest != digestBoth || len(sets[0].Changes) != 2 || sets[1].Requester.Subject != "mallory" || sets[1].Changes[0].Diff.Digest != clitest.DigestThree {
		t.Errorf("sets are %+v", sets)
	}
}

func TestAListGivesTheDigestOfWhatItListsWhole(t *testing.T) {
	const both, partly = "set roll out, 2 live changes of \\u043elga of https://people.example: " + digestBoth + "\n", "this may not be all of the set"
	spent := clitest.OtherChange()
	spent.State = api.ChangeStateSpent
	two := []api.Change{clitest.OtherChange(), clitest.OneChange()}
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
		"with an ended one":  {now: []api.Change{spent, clitest.OneChange()}, want: "set roll out, 1 live change of \\u043elga of https://people.example: " + digestFirst + "\n"},
		"of two requesters":  {now: append([]api.Change{clitest.Strange()}, two...), want: both},
		"of the other, also": {now: append([]api.Change{clitest.Strange()}, two...), want: "set roll out, 1 live change of mallory of https://people.example: set-sha256:"},
	} {
		t.Run(name, func(t *testing.T) {
			withSet(t, row.now...)
			got := runProgram(t, append([]string{"changes", "list", "--set", "roll out"}, row.args...)...)
			if got.Code != cli.ExitOK || !strings.Contains(got.ErrOut, row.want) || row.want == partly && strings.Contains(got.ErrOut, setScheme) {
				t.Errorf("code %d, said\n%swant %q", got.Code, got.ErrOut, row.want)
			}
		})
	}
	s := clitest.NewStub(t)
	s.On("GET /changes", clitest.Gives(http.StatusOK, api.ChangeList{Items: two[:1], Next: "c2"}))
	if got := runProgram(t, "changes", "list", "--set", "roll out", "--limit", "1"); !strings.Contains(got.ErrOut, partly) || strings.Contains(got.ErrOut, setScheme) {
		t.Errorf("half a set has a digest:\n%s", got.ErrOut)
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
