package changes

import (
	"encoding/json"
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

var (
	underOne = "hmac-sha256:k1:" + strings.Repeat("a", 64)
	underTwo = "hmac-sha256:k2:" + strings.Repeat("b", 64)
)

func TestADigestIsAskedForAndCompared(t *testing.T) {
	file := filepath.Join(t.TempDir(), "worker.yaml")
	text := "machine:\n  type: worker\n\xff"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	both := clitest.Gives(http.StatusCreated, api.ComputedDigest{Digest: underTwo, Under: &map[string]string{"k1": underOne, "k2": underTwo}, Entry: clitest.StubDecision})
	for _, row := range []struct {
		name string
		args []string
		code int
		out  string // whole, or a part with … at its end
		err  string // a part
		sent int
	}{
		{"all", nil, cli.ExitOK, "KEY              DIGEST\nhmac-sha256:k2   " + underTwo + "\nhmac-sha256:k1   " + underOne + "\n", "", 1},
		{"the newest", []string{"--compare", underTwo}, cli.ExitOK, underTwo + " is the digest of " + file + "\n", "", 1},
		{"an older key's", []string{"--compare", underOne}, cli.ExitOK, underOne + " is the digest of " + file + "\n", "", 1},
		{"another text's", []string{"--compare", "hmac-sha256:k1:" + strings.Repeat("c", 64)}, cli.ExitChanged, "", file + " has another digest: " + underOne, 1},
		{"of a key that is not there", []string{"--compare", "hmac-sha256:k3:" + strings.Repeat("a", 64)}, cli.ExitFailed, "", "no key for hmac-sha256:k3; it has hmac-sha256:k2, hmac-sha256:k1", 1},
		{"of another scheme", []string{"--compare", "sha256:" + strings.Repeat("a", 64)}, cli.ExitFailed, "", "no key for sha256;", 1},
		{"cut short", []string{"--compare", underOne[:40]}, cli.ExitUsage, "", "a whole digest", 0},
		{"in upper case", []string{"--compare", strings.ToUpper(underOne)}, cli.ExitUsage, "", "a whole digest", 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := clitest.NewStub(t)
			s.On("POST /digests", both)
			got := runProgram(t, append([]string{"digest", "-f", file}, row.args...)...)
			if got.Code != row.code || got.Out != row.out || !strings.Contains(got.ErrOut, row.err) {
				t.Errorf("code %d\n%s%s", got.Code, got.Out, got.ErrOut)
			}
			seen := s.Requests()
			if len(seen) != row.sent || row.sent > 0 && (seen[0].Body != text || seen[0].Header.Get("Content-Type") != "application/yaml") {
				t.Errorf("sent %+v", seen)
			}
		})
	}
}

func TestADigestInJSONSaysWhetherItIsTheSame(t *testing.T) {
	file := filepath.Join(t.TempDir(), "worker.yaml")
	if err := os.WriteFile(file, []byte("a: b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := clitest.NewStub(t)
	s.On("POST /digests", clitest.Gives(http.StatusCreated, api.ComputedDigest{Digest: "sha256:" + strings.Repeat("a", 64), Entry: clitest.StubDecision}))
	got := runProgram(t, "digest", "-f", file, "-o", "json", "--compare", "sha256:"+strings.Repeat("b", 64))
	var value map[string]any
	if err := json.Unmarshal([]byte(got.Out), &value); err != nil || got.Code != cli.ExitChanged {
		t.Fatalf("code %d, %v: %s", got.Code, err, got.Out)
	}
	want := map[string]any{"digest": "sha256:" + strings.Repeat("a", 64), "entry": clitest.StubDecision, "compared": "sha256:" + strings.Repeat("b", 64), "same": false}
	if diff := cmp.Diff(want, value); diff != "" {
		t.Error(diff)
	}
}

func TestDigestKeysAreListedAndAdded(t *testing.T) {
	s := clitest.NewStub(t)
	s.On("GET /digest-keys", clitest.Gives(http.StatusOK, api.DigestKeyList{Items: []api.DigestKey{{Version: "k1"}, {Version: "k2", UsedFrom: &clitest.StubNow}}}))
	s.On("POST /digest-keys", clitest.Gives(http.StatusCreated, api.AddedDigestKey{Version: "k3", UsedFrom: clitest.StubNow, Entry: clitest.StubDecision}),
		clitest.Refuses(http.StatusServiceUnavailable, "BW-DIGEST-002", "adding a digest key failed: OpenBao is sealed (sealed)", ""))
	if got := runProgram(t, "digest-keys", "list"); got.Code != cli.ExitOK || got.Out != "VERSION   USED FROM\nk1        -\nk2        "+cli.Stamp(&clitest.StubNow)+"\n" {
		t.Errorf("code %d\n%s%s", got.Code, got.Out, got.ErrOut)
	}
	if got := runProgram(t, "digest-keys", "add"); got.Code != cli.ExitOK || got.Out != "digest key k3 is used for new digests from "+cli.Stamp(&clitest.StubNow)+" (decision "+clitest.StubDecision+")\n" {
		t.Errorf("code %d\n%s%s", got.Code, got.Out, got.ErrOut)
	}
	// What the gateway has tried again itself is not asked again.
	got := runProgram(t, "digest-keys", "add")
	if got.Code != cli.ExitUnavailable || !strings.Contains(got.ErrOut, "OpenBao is sealed") || len(s.Requests()) != 3 {
		t.Errorf("code %d after %d requests\n%s", got.Code, len(s.Requests()), got.ErrOut)
	}
}
