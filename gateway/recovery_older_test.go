package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bronzeward/gateway/httpapi/api"
)

// onStorage does something to the storage of the stopped OpenBao, and starts it again at its address.
// Gateways stay up.
func (s *street) onStorage(t *testing.T, do func(string) error, folder string) {
	t.Helper()
	ok(t, errors.Join(s.OpenBao.Stop(), do(folder), s.OpenBao.Restart(context.Background())))
}

// anchorVersions are the KV version of the anchor, and the one the database remembers having written.
func (s *street) anchorVersions(t *testing.T) (there, wrote int) {
	t.Helper()
	status, answer, err := s.OpenBao.API(context.Background(), http.MethodGet, "bronzeward/metadata/anchor", nil)
	if err != nil || status != http.StatusOK {
		t.Fatalf("reading the anchor's version: %d, %v", status, err)
	}
	data, _ := answer["data"].(map[string]any)
	version, _ := data["current_version"].(float64)
	return int(version), must(s.db.Count(context.Background(), "select anchor_version from control.recovery"))(t)
}

// warns is whether /readyz of a process has a warning of that code. It is to be ready all the same.
func (s *street) warns(t *testing.T, at *process, code string) bool {
	t.Helper()
	web := must(s.WebClient())(t)
	defer web.CloseIdleConnections()
	response := must(web.Get("https://" + at.HTTP + "/readyz"))(t)
	defer response.Body.Close()
	var page struct {
		Warnings []string `json:"warnings"`
	}
	ok(t, json.NewDecoder(response.Body).Decode(&page))
	if response.StatusCode != http.StatusOK {
		t.Errorf("/readyz answers %d", response.StatusCode)
	}
	return slices.ContainsFunc(page.Warnings, func(w string) bool { return strings.HasPrefix(w, code+": ") })
}

// revokes has rhea revoke somebody, which moves the anchor on before it is answered.
func (s *street) revokes(t *testing.T, at *process, subject string) {
	t.Helper()
	_ = must(s.At(at.Gateway).Bronzeward(context.Background(), "rhea", "identities", "revoke", "--yes",
		"--issuer", s.PeopleIssuer(), "--subject", subject, "--reason", "left"))(t)
}

// An OpenBao whose storage is put back to an older state is noticed, by gateways that run and by one
// that starts on it: nothing is applied, nothing is written over what it remembers, and /readyz warns.
// When its newest state is put back the mark goes by itself. The control is the same older state with
// the database's own memory of the anchor removed: an apply goes out, under an OpenBao that remembers
// no revocation.
func TestAnOlderOpenBaoIsRefusedUntilItIsTheNewestAgain(t *testing.T) {
	s := newStreet(t, 1, 0)
	older, newest := filepath.Join(t.TempDir(), "older"), filepath.Join(t.TempDir(), "newest")
	runs := s.serve(t, "runs")
	s.applies(t, "before", "")
	s.onStorage(t, s.OpenBao.Backup, older)
	s.revokes(t, runs, "mallory")
	s.applies(t, "the anchor has moved on", "")
	if there := s.anchor(t); there["revocations"] != float64(1) {
		t.Fatalf("the anchor has %v", there)
	}
	s.onStorage(t, s.OpenBao.Backup, newest)

	s.onStorage(t, s.OpenBao.Restore, older)
	is, wrote := s.anchorVersions(t)
	if is >= wrote {
		t.Fatalf("OpenBao has version %d of the anchor, the database wrote %d: nothing is shown", is, wrote)
	}
	eventually(t, "the running gateway to notice", func() bool { return s.warns(t, runs, codeOlderOpenBao) })
	s.stands(t, runs, api.OlderOpenbao, "enter")
	s.applies(t, "under the older OpenBao", codeOlderOpenBao)
	if _, err := s.At(runs.Gateway).Bronzeward(context.Background(), "vera", "machines", "list"); err != nil {
		t.Errorf("a reading: %v", err)
	}
	runs.kill()
	starts := s.serve(t, "starts")
	if !s.warns(t, starts, codeOlderOpenBao) {
		t.Error("a gateway that starts on it is ready and does not warn")
	}
	s.applies(t, "at the gateway that started", codeOlderOpenBao)
	if now, _ := s.anchorVersions(t); now != is || s.anchor(t)["latched"] != nil {
		t.Errorf("the older anchor went from version %d to %d: %v", is, now, s.anchor(t))
	}

	s.onStorage(t, s.OpenBao.Restore, newest)
	eventually(t, "the mark to go", func() bool { return !s.warns(t, starts, codeOlderOpenBao) })
	s.stands(t, starts, api.None)
	s.applies(t, "the newest is back", "")
	starts.kill()

	s.onStorage(t, s.OpenBao.Restore, older)
	if there := s.anchor(t); there["revocations"] != float64(0) {
		t.Fatalf("the older anchor has %v", there)
	}
	ok(t, s.db.Exec(context.Background(), "update control.recovery set anchor_version = 0"))
	blind := s.serve(t, "blind")
	s.stands(t, blind, api.None)
	s.applies(t, "the control", "")
}
