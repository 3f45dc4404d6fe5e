package changes

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/cmd/bronzeward/clitest"
	"bronzeward/gateway/httpapi/api"
)

const configText = "version: v1alpha1 # <&> \u2028 é\n"

func TestWhoApprovesHasLooked(t *testing.T) {
	for name, row := range map[string]struct {
		args     []string
		typed    string
		there    bool
		code     int
		approved int
		says     string
	}{
		"by the digest":                {args: []string{clitest.ChangeOne, "--digest", clitest.DigestOne}, approved: 1},
		"nobody is there":              {args: []string{clitest.ChangeOne}, code: cli.ExitUsage, says: "name the digest you looked at"},
		"nobody is there, for a set":   {args: []string{"--set", "x y"}, code: cli.ExitUsage, says: "try: bronzeward changes show --set 'x y'\n"},
		"yes, unseen":                  {args: []string{clitest.ChangeOne, "--yes"}, code: cli.ExitUsage, says: "--yes would approve what nobody looked at"},
		"yes to a set, unseen":         {args: []string{"--set", "x", "--yes"}, code: cli.ExitUsage, says: "--yes would approve what nobody looked at"},
		"yes to a set, with a digest":  {args: []string{"--set", "x", "-y", "--digest", digestBoth}, code: cli.ExitUsage, says: "--yes would approve what nobody looked at"},
		"yes to a set, on a terminal":  {args: []string{"--set", "x", "-y"}, there: true, typed: "yes\n", code: cli.ExitUsage, says: "--yes would approve what nobody looked at"},
		"a change and a set":           {args: []string{clitest.ChangeOne, "--set", "x"}, code: cli.ExitUsage, says: "name one change"},
		"a set by a change's digest":   {args: []string{"--set", "x", "--digest", clitest.DigestOne}, code: cli.ExitUsage, says: "--digest is no set's"},
		"a set by half a digest":       {args: []string{"--set", "x", "--digest", digestBoth[:40]}, code: cli.ExitUsage, says: "--digest is no set's"},
		"a change by a set's digest":   {args: []string{clitest.ChangeOne, "--digest", digestBoth}, code: cli.ExitUsage, says: "--digest is a set's"},
		"a requester without a set":    {args: []string{clitest.ChangeOne, "--digest", clitest.DigestOne, "--requester", "olga"}, code: cli.ExitUsage, says: "it goes with --set"},
		"an issuer of nobody":          {args: []string{"--set", "x", "--digest", digestBoth, "--requester-issuer", "i"}, code: cli.ExitUsage, says: "give both"},
		"a set by its digest":          {args: []string{"--set", "x", "--digest", digestBoth}, approved: 1},
		"shown, and yes typed":         {args: []string{clitest.ChangeOne}, there: true, typed: "yes\n", approved: 1, says: `machine.nodeLabels.zone: (none) -> "a"`},
		"shown, and y typed":           {args: []string{clitest.ChangeOne}, there: true, typed: "y\n", code: cli.ExitFailed, says: "nothing was done"},
		"shown, and the terminal ends": {args: []string{clitest.ChangeOne}, there: true, code: cli.ExitFailed, says: "nothing was done"},
		"a set, and yes typed":         {args: []string{"--set", "x"}, there: true, typed: "yes\n", approved: 1, says: "each of these 2 machines"},
		"a set, and no typed":          {args: []string{"--set", "x"}, there: true, typed: "no\n", code: cli.ExitFailed, says: "nothing was done"},
	} {
		t.Run(name, func(t *testing.T) {
			s := withSet(t, clitest.OtherChange(), clitest.OneChange())
			got := runAt(t.Context(), cli.Console{In: strings.NewReader(row.typed), Interactive: row.there}, append([]string{"changes", "approve"}, row.args...)...)
			n := len(clitest.Posted[api.NewApproval](t, s, "/changes/"+clitest.ChangeOne+"/approvals"))
			if got.Code != row.code || n != row.approved || !strings.Contains(got.ErrOut, row.says) {
				t.Errorf("code %d and %d approvals, want %d and %d and %q\n%s", got.Code, n, row.code, row.approved, row.says, got.ErrOut)
			}
		})
	}
}

func TestAQuestionEndsWithTheCommand(t *testing.T) {
	s := withSet(t, clitest.OtherChange(), clitest.OneChange())
	r, w := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	s.Mux = http.NewServeMux()
	s.On("GET /changes/{id}", clitest.Gives(http.StatusOK, clitest.OneChange()))
	s.On("GET /changes/{id}/diff", clitest.Gives(http.StatusOK, clitest.DiffOf(clitest.OneChange())))
	asked := &promptWriter{asked: cancel}
	code := run(ctx, []string{"changes", "approve", clitest.ChangeOne}, cli.Console{In: r, Out: io.Discard, ErrOut: asked, Interactive: true})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if code != cli.ExitFailed || len(clitest.Posted[api.NewApproval](t, s, "/changes/"+clitest.ChangeOne+"/approvals")) != 0 {
		t.Errorf("code %d", code)
	}
}

// promptWriter calls asked when a question is printed.
type promptWriter struct{ asked func() }

func (p *promptWriter) Write(b []byte) (int, error) {
	if strings.Contains(string(b), "Type yes") {
		p.asked()
	}
	return len(b), nil
}

func TestAConfigurationIsSubmittedByteForByte(t *testing.T) {
	file := filepath.Join(t.TempDir(), "worker.yaml")
	if err := os.WriteFile(file, []byte(configText), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		args   []string
		in     string
		answer http.HandlerFunc
		want   []api.NewChange
		code   int
		golden string
		says   string
	}{
		"one machine": {args: []string{"-n", "worker-1", "-f", file}, golden: "submit-one", want: []api.NewChange{{Machine: "worker-1", Configuration: configText, Mode: api.NoReboot}}},
		"from standard input, for two": {
			args: []string{"-n", "worker-1,worker-2", "-f", "-", "--set", "roll out"}, in: configText, golden: "submit-set",
			want: []api.NewChange{{Machine: "worker-1", Configuration: configText, Mode: api.NoReboot, Set: new("roll out")}, {Machine: "worker-2", Configuration: configText, Mode: api.NoReboot, Set: new("roll out")}},
		},
		"in another set already": {
			args: []string{"-n", "worker-1", "-f", file, "--set", "s"}, code: cli.ExitFailed, says: "stays in set roll out",
			want: []api.NewChange{{Machine: "worker-1", Configuration: configText, Mode: api.NoReboot, Set: new("s")}},
		},
		"there already": {args: []string{"-n", "worker-1", "-f", file}, answer: clitest.Gives(http.StatusOK, clitest.Approved(clitest.OneChange())), golden: "submit-same", want: []api.NewChange{{Machine: "worker-1", Configuration: configText, Mode: api.NoReboot}}},
		"refused": {
			args: []string{"-n", "worker-1,worker-2", "-f", "-", "--set", "s"}, in: configText, code: cli.ExitDenied, says: "worker-2: DENIED BW-CONFIG-013",
			answer: clitest.Refuses(http.StatusForbidden, "BW-CONFIG-013", "no", ""),
			want:   []api.NewChange{{Machine: "worker-1", Configuration: configText, Mode: api.NoReboot, Set: new("s")}, {Machine: "worker-2", Configuration: configText, Mode: api.NoReboot, Set: new("s")}},
		},
		"two without a set":    {args: []string{"-n", "a,b", "-f", file}, code: cli.ExitUsage, says: "--set NAME"},
		"one twice":            {args: []string{"-n", "a,a", "-f", file, "--set", "s"}, code: cli.ExitUsage, says: "names a machine twice"},
		"nothing":              {args: []string{"-n", "a", "-f", "-"}, code: cli.ExitUsage, says: "- is empty"},
		"not UTF-8":            {args: []string{"-n", "a", "-f", "-"}, in: "a: \xff", code: cli.ExitUsage, says: "not UTF-8"},
		"no such file":         {args: []string{"-n", "a", "-f", file + "x"}, code: cli.ExitUsage, says: "worker.yamlx"},
		"a time and no wait":   {args: []string{"-n", "a", "-f", file, "--timeout", "1s"}, code: cli.ExitUsage, says: "--wait"},
		"a mode with a reboot": {args: []string{"-n", "a", "-f", file, "--mode", "reboot"}, code: cli.ExitUsage, says: "--mode"},
	} {
		t.Run(name, func(t *testing.T) {
			s := clitest.NewStub(t)
			if row.answer == nil {
				row.answer = clitest.Gives(http.StatusCreated, clitest.OneChange())
			}
			s.On("POST /changes", row.answer)
			got := runAt(t.Context(), cli.Console{In: strings.NewReader(row.in)}, append([]string{"changes", "submit"}, row.args...)...)
			if got.Code != row.code || !strings.Contains(got.ErrOut, row.says) {
				t.Errorf("code %d, want %d and %q\n%s", got.Code, row.code, row.says, got.ErrOut)
			}
			if diff := cmp.Diff(row.want, clitest.Posted[api.NewChange](t, s, "/changes")); diff != "" {
				t.Errorf("proposed (-want +got):\n%s", diff)
			}
			if row.golden != "" {
				clitest.Golden(t, row.golden, got)
			}
		})
	}
}

func TestAChangeIsEnded(t *testing.T) {
	s := clitest.NewStub(t)
	rejected, cancelled := clitest.OneChange(), clitest.OneChange()
	rejected.State, rejected.Reason = api.ChangeStateRejected, "not on\na Friday"
	cancelled.State = api.ChangeStateCancelled
	s.On("POST /changes/{id}/rejections", clitest.Gives(http.StatusOK, rejected))
	s.On("POST /changes/{id}/cancellations", clitest.Gives(http.StatusOK, cancelled))
	s.On("POST /approvals/{id}/revocations", clitest.Gives(http.StatusOK, clitest.OneChange().Approvals[0]))
	for _, row := range []struct {
		args             []string
		path, sent, says string
	}{
		{[]string{"changes", "reject", clitest.ChangeOne, "--reason", "r"}, "/changes/" + clitest.ChangeOne + "/rejections", "r", `worker-1 is rejected: not on\u000aa Friday (decision ` + clitest.StubDecision + ")\n"},
		{[]string{"changes", "cancel", clitest.ChangeOne}, "/changes/" + clitest.ChangeOne + "/cancellations", "no reason was given", "is cancelled"},
		{[]string{"approvals", "revoke", "apr_x", "--reason", "r"}, "/approvals/apr_x/revocations", "r", "of vera of https://people.example is revoked"},
	} {
		got := runProgram(t, row.args...)
		sent := clitest.Posted[api.Reason](t, s, row.path)
		if got.Code != cli.ExitOK || len(sent) != 1 || sent[0].Reason != row.sent || !strings.Contains(got.Out, row.says) {
			t.Errorf("%v: code %d, sent %v\n%s%s", row.args, got.Code, sent, got.Out, got.ErrOut)
		}
	}
	for _, args := range [][]string{{"changes", "reject", clitest.ChangeOne}, {"approvals", "revoke", "apr_x"}, {"approvals", "revoke", clitest.ChangeOne, "--reason", "r"}} {
		if got := runProgram(t, args...); got.Code != cli.ExitUsage {
			t.Errorf("%v: code %d\n%s", args, got.Code, got.ErrOut)
		}
	}
}
