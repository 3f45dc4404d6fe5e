package book

import (
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"

	"bronzeward/audit"
	"bronzeward/audit/tree"
	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/gateway/httpapi/api"
)

// door is a gateway's HTTP address with the world's book behind it, and asks by somebody without a database login.
type door struct {
	refuse map[string]int // path: status that it is answered with
	swap   func(path string) string
	args   []string
}

func (w *world) door(t *testing.T) *door {
	t.Helper()
	d := &door{refuse: map[string]int{}, swap: func(path string) string { return path }}
	reader := audit.NewReader(w.owner)
	mux := http.NewServeMux()
	answer := func(rw http.ResponseWriter, err error, body any) {
		status := http.StatusOK
		switch {
		case errors.Is(err, tree.ErrNotFound):
			status = 404
		case errors.Is(err, tree.ErrNotSigned), errors.Is(err, tree.ErrMissing):
			status = 409
		case err != nil:
			status = 500
		}
		if err != nil {
			body = api.Problem{Status: status, Code: "BW-HTTP-" + strconv.Itoa(status), Detail: "no"}
		}
		rw.WriteHeader(status)
		_ = json.NewEncoder(rw).Encode(body)
	}
	mux.HandleFunc("GET /decisions/{id}/proof", func(rw http.ResponseWriter, r *http.Request) {
		p, err := tree.Prove(r.Context(), w.owner, uuid.MustParse(r.PathValue("id")))
		answer(rw, err, p)
	})
	mux.HandleFunc("GET /checkpoints", func(rw http.ResponseWriter, r *http.Request) {
		number, size := 0, int64(0)
		if text := r.URL.Query().Get("tree"); text != "" {
			number, _ = strconv.Atoi(text)
			size = tree.MaxSize
		}
		found, err := reader.CheckpointsBefore(r.Context(), int32(number), size, 1)
		list := api.CheckpointList{Items: []api.Checkpoint{}}
		for _, c := range found {
			list.Items = append(list.Items, api.Checkpoint{Tree: c.Tree, Origin: c.Origin, Epoch: c.Epoch.String(), Size: c.Size, Root: c.Root, SignedAt: c.SignedAt, Note: c.Note})
		}
		answer(rw, err, list)
	})
	mux.HandleFunc("GET /checkpoints/consistency", func(rw http.ResponseWriter, r *http.Request) {
		number := func(name string) int64 {
			n, _ := strconv.ParseInt(r.URL.Query().Get(name), 10, 64)
			return n
		}
		proof, err := tree.Consistency(r.Context(), w.owner, int32(number("tree")), number("from"), number("to"))
		body := api.Consistency{Tree: int32(number("tree")), From: number("from"), To: number("to"), Hashes: [][]byte{}}
		for i := range proof {
			body.Hashes = append(body.Hashes, proof[i][:])
		}
		answer(rw, err, body)
	})
	server := httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if status := d.refuse[r.URL.Path]; status != 0 {
			rw.WriteHeader(status)
			_ = json.NewEncoder(rw).Encode(api.Problem{Status: status, Code: "BW-HTTP-" + strconv.Itoa(status), Detail: "refused"})
			return
		}
		r.URL.Path = d.swap(r.URL.Path)
		mux.ServeHTTP(rw, r)
	}))
	t.Cleanup(server.Close)
	folder := t.TempDir()
	ca, token := filepath.Join(folder, "ca"), filepath.Join(folder, "token")
	mustWrite(t, ca, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	mustWrite(t, token, "a-token\n")
	d.args = []string{"--server", server.URL, "--server-ca", ca, "--token-file", token}
	return d
}

func (d *door) run(t *testing.T, args ...string) ran {
	t.Helper()
	for _, name := range []string{auditorURL, "PGHOST", "PGSERVICE", "PGDATABASE"} {
		t.Setenv(name, "")
	}
	return runAt(t, t.Context(), noConfig{}, cli.Console{}, append(args, d.args...)...)
}

func TestAProofIsHadFromAGateway(t *testing.T) {
	w, ours := newWorld(t), newSigner("ours")
	d := w.door(t)
	other := w.write(t, call("Version"))
	id := w.write(t, apply(), audit.Outcome{Kind: audit.OutcomeReadBack, Digest: "sha256:k0:new"})
	var early cli.NotYetError
	if r := d.run(t, "prove", id.String()); !errors.As(r.err, &early) || r.out != "" {
		t.Errorf("not signed yet: %v", r.err)
	}
	if r := d.run(t, "prove", uuid.NewString()); r.err == nil || !strings.Contains(r.err.Error(), "no decision has the id") {
		t.Error(r.err)
	}
	w.sign(t, ours, firstEpoch)
	r := d.run(t, "prove", id.String())
	if direct := w.run(t, "prove", id.String()); r.err != nil || direct.err != nil || r.out != direct.out {
		t.Errorf("%v, %v, of the gateway\n%s\nof the database\n%s", r.err, direct.err, r.out, direct.out)
	}
	// Of both, the database is asked; --gateway asks the gateway.
	path := "/decisions/" + id.String() + "/proof"
	d.refuse[path] = 403
	if r := w.run(t, append([]string{"prove", id.String()}, d.args...)...); r.err != nil {
		t.Error(r.err)
	}
	if r := w.run(t, append([]string{"prove", "--gateway", id.String()}, d.args...)...); r.err == nil || !strings.Contains(r.err.Error(), "DENIED") {
		t.Error(r.err)
	}
	clear(d.refuse)
	// A gateway that gives the proof of another decision proves nothing.
	d.swap = func(string) string { return "/decisions/" + other.String() + "/proof" }
	if r := d.run(t, "prove", id.String()); !notWhole(r.err) || r.out != "" {
		t.Errorf("another decision's proof: %v", r.err)
	}
	d.swap = func(string) string { return "/checkpoints" }
	if r := d.run(t, "prove", id.String()); !notWhole(r.err) || r.out != "" {
		t.Errorf("no proof: %v", r.err)
	}
}

func TestACheckpointIsKeptFromAGateway(t *testing.T) {
	w, ours := newWorld(t), newSigner("ours")
	d := w.door(t)
	kept := filepath.Join(t.TempDir(), "kept")
	keep := []string{"checkpoint", "--public-key", ours.file(t), "--keep", kept}
	read := func(path string) string {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	var early cli.NotYetError
	if r := d.run(t, keep...); !errors.As(r.err, &early) {
		t.Errorf("no checkpoint yet: %v", r.err)
	}
	grow := func(n int, epoch uuid.UUID) {
		t.Helper()
		for range n {
			w.write(t, call("Version"))
		}
		w.sign(t, ours, epoch)
	}
	grow(3, firstEpoch)
	if r := d.run(t, keep...); r.err != nil || r.out != read(kept) {
		t.Errorf("%v, printed %q", r.err, r.out)
	}
	three := read(kept)
	grow(4, firstEpoch)
	// A question that is refused shows nothing about the book, and keeps nothing.
	d.refuse["/checkpoints/consistency"] = 403
	if r := d.run(t, keep...); r.err == nil || notWhole(r.err) || !errors.Is(r.err, errUnasked) || read(kept) != three {
		t.Errorf("refused: %v", r.err)
	}
	d.refuse["/checkpoints/consistency"] = 404 // a gateway that is older than this question
	if r := d.run(t, keep...); !errors.Is(r.err, errUnasked) || notWhole(r.err) {
		t.Errorf("no such path: %v", r.err)
	}
	clear(d.refuse)
	if r := d.run(t, keep...); r.err != nil || !strings.Contains(read(kept), "\n7\n") {
		t.Errorf("grown: %v", r.err)
	}
	seven := read(kept)
	if r := d.run(t, "checkpoint", "--public-key", newSigner("another").file(t)); !notWhole(r.err) {
		t.Errorf("another key: %v", r.err)
	}
	// Two recoveries: two new trees.
	grow(1, secondEpoch)
	grow(1, uuid.MustParse("5b0f8f5e-3333-4333-8333-333333333333"))
	if r := d.run(t, keep...); r.err != nil || read(kept+"."+firstEpoch.String()) != seven {
		t.Errorf("new epochs: %v", r.err)
	}
	// Leaves that are gone cannot be shown, and another tree is a fork.
	mustWrite(t, kept, three)
	w.tamper(t, "delete from audit.leaves where tree = 1 and index < 3")
	if r := d.run(t, keep...); !notWhole(r.err) || !errors.Is(r.err, tree.ErrForked) || read(kept) != three {
		t.Errorf("leaves are gone: %v", r.err)
	}
	if r := w.run(t, keep...); !notWhole(r.err) || !errors.Is(r.err, tree.ErrForked) {
		t.Errorf("leaves are gone, as the database tells: %v", r.err)
	}
	w.tamper(t, "delete from audit.checkpoints where tree = 1; delete from audit.trees where tree = 1")
	if r := d.run(t, keep...); !notWhole(r.err) || !errors.Is(r.err, tree.ErrRolledBack) {
		t.Errorf("its tree is gone: %v", r.err)
	}
}

func TestWhoNamesNeitherIsToldOfBoth(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	for _, name := range []string{auditorURL, "PGHOST", "PGSERVICE", "PGDATABASE"} {
		t.Setenv(name, "")
	}
	for _, args := range [][]string{{"prove", uuid.NewString()}, {"checkpoint"}} {
		r := runAt(t, t.Context(), noConfig{}, cli.Console{}, args...)
		if !usage(r.err) {
			t.Errorf("%v: %v", args, r.err)
			continue
		}
		has(t, r.err.Error(), "no gateway is named", "--database-url-file")
	}
}
