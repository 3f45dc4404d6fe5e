package bao

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/note"

	"bronzeward/audit/tree"
	"bronzeward/fixtures/openbao"
)

// transitSigner signs notes with one version of the key in OpenBao, as a line of the key file says.
type transitSigner struct {
	note.Verifier
	t       *testing.T
	server  *openbao.Server
	version int
}

func (s transitSigner) Sign(message []byte) ([]byte, error) {
	_, answer, err := s.server.API(s.t.Context(), http.MethodPost, "transit/sign/bronzeward-checkpoint", map[string]any{
		"input": base64.StdEncoding.EncodeToString(message), "key_version": s.version,
	})
	if err != nil {
		return nil, err
	}
	data, _ := answer["data"].(map[string]any)
	text, _ := data["signature"].(string)
	parts := strings.Split(text, ":")
	return base64.StdEncoding.DecodeString(parts[len(parts)-1])
}

// verifiesBoth fails the test unless the public key file verifies what either version signs, and
// each line nothing of the other's.
func verifiesBoth(t *testing.T, server *openbao.Server, file string) {
	t.Helper()
	keys, err := tree.ParseKeys([]byte(file))
	if err != nil {
		t.Fatalf("%v:\n%s", err, file)
	}
	lines := strings.Split(strings.TrimSpace(file), "\n")
	if len(lines) != 3 || !strings.HasPrefix(lines[0], "# ") {
		t.Fatalf("the file is\n%s", file)
	}
	for version, line := range lines[1:] {
		verifier, err := note.NewVerifier(line)
		if err != nil {
			t.Fatal(err)
		}
		head := tree.Checkpoint{Origin: tree.Origin(uuid.New(), uuid.New()), Size: 7}
		signed, err := note.Sign(&note.Note{Text: head.Text()}, transitSigner{verifier, t, server, version + 1})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := tree.OpenCheckpoint(signed, keys); err != nil || got.Size != 7 {
			t.Errorf("version %d: %v", version+1, err)
		}
		other, err := tree.ParseKeys([]byte(lines[2-version]))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tree.OpenCheckpoint(signed, other); err == nil {
			t.Errorf("the other version's line verifies what version %d signed", version+1)
		}
	}
	if text := fmt.Sprint(file); strings.Contains(text, server.RootToken()) {
		t.Error("the file holds the token")
	}
}
