package gateway

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"bronzeward/gateway/upstream"
)

var credentialDay = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// lives is a state whose certificate lived for three days, of which so much is left.
func lives(cluster string, version int64, left time.Duration) upstream.CredentialState {
	ends := credentialDay.Add(left)
	return upstream.CredentialState{Cluster: cluster, Version: version, Begins: ends.Add(-72 * time.Hour), Ends: ends}
}

func lacks(cluster string, version int64, cause error) upstream.CredentialState {
	return upstream.CredentialState{Cluster: cluster, Version: version, Err: &upstream.Error{Class: upstream.ClassCredential, Err: cause}}
}

// What stands well is no warning; what ends within a third of its life, or cannot be used, is
// one sentence, in the words for callers.
func TestReadinessWarnsOfCredentials(t *testing.T) {
	t.Parallel()
	states := []upstream.CredentialState{
		lives("a", 3, 25*time.Hour), lives("b", 4, 23*time.Hour), lacks("c", 5, sealedAway{}), lacks("d", 0, errors.New("secret-cause")), lives("", 0, time.Hour),
	}
	out, warnings := credentialsReady(states, credentialDay)
	want := []readyCredential{
		{"a", "2026-12-01T13:00:00Z", 3}, {"b", "2026-12-01T11:00:00Z", 4}, {"c", "", 5}, {"d", "", 0}, {"", "2026-11-30T13:00:00Z", 0},
	}
	if d := cmp.Diff(want, out); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{
		"the Talos credential of cluster b ends 2026-12-01T11:00:00Z; put a new one in its place before",
		sealedSentence, "the gateway's own Talos credential is not usable; its log says why",
		"the Talos credential ends 2026-11-30T13:00:00Z; put a new one in its place before",
	}, warnings); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if out, warnings := credentialsReady(nil, credentialDay); out == nil || warnings == nil {
		t.Error("an empty list would be shown as null")
	}
}

// A replica is unready only when no cluster has a usable credential; a cluster with machines and
// without one is a warning, and so shows in the metrics as 0.
func TestOneUsableCredentialMakesAReplicaReady(t *testing.T) {
	t.Parallel()
	h, source := withCredentials(t, func(s *setup) { s.ownEngine = true })
	registry := prometheus.NewRegistry()
	registry.MustRegister(newCredentialMetrics(h.gw.credentials))
	ends := func(name string, version int64) string {
		one := must(source.Credential(context.Background(), name))(t)
		if one.Version != version {
			t.Fatalf("version %d", one.Version)
		}
		return one.Certificate.Leaf.NotAfter.UTC().Format(time.RFC3339)
	}
	check := func(want []readyCredential, problem string, warnings ...string) {
		t.Helper()
		state, problems := h.gw.Ready(context.Background())
		if got := strings.Join(problems, "; "); got != problem {
			t.Errorf("problems %q, want %q", got, problem)
		}
		if warnings == nil {
			warnings = []string{}
		}
		if d := cmp.Diff([]any{want, warnings}, []any{state["talos_credentials"], state["warnings"]}); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
		families := must(registry.Gather())(t)
		for i, c := range want {
			end, version := families[0].GetMetric()[i], families[1].GetMetric()[i]
			if end.GetLabel()[0].GetValue() != c.Cluster || (end.GetGauge().GetValue() > 0) != (c.Ends != "") || version.GetGauge().GetValue() != float64(c.Version) {
				t.Errorf("%s: ends %v, version %v", c.Cluster, end, version)
			}
		}
		if n := must(testutil.GatherAndCount(registry, "bronzeward_talos_credential_end_timestamp_seconds"))(t); n != len(want) {
			t.Errorf("%d clusters in the metrics, want %d", n, len(want))
		}
	}
	check([]readyCredential{{cluster, ends(cluster, 1), 1}}, "")

	source.put(t, "other", 5)
	source.drop(cluster)
	check([]readyCredential{{cluster, "", 0}, {"other", ends("other", 5), 5}}, "",
		"there is no Talos credential of cluster lab; put a good one in: bronzeward openbao put-credential --cluster lab")

	source.fails(sealedAway{})
	check([]readyCredential{{cluster, "", 0}, {"other", "", 0}}, "no Talos credential is usable; the warnings say why", sealedSentence, sealedSentence)

	none := newHouse(t, func(s *setup) {
		s.ownEngine, s.workers = true, 0
		s.upstream = func(u *upstream.Config) { u.Credential = &credentialStore{} }
	})
	if _, problems := none.gw.Ready(context.Background()); strings.Join(problems, "; ") != "there is no Talos credential, for any cluster" {
		t.Errorf("problems %q", problems)
	}
}

// The log says once per version what is in use, once that it ends soon, and once why there is
// none, however the sentence counts the minutes.
func TestTheLogSaysOnceWhichCredentialIsInUse(t *testing.T) {
	t.Parallel()
	noted := credentialLog{}
	minutes := 0
	sealed := func() upstream.CredentialState {
		minutes++
		return lacks("a", 0, &upstream.CredentialError{Reason: "sealed", Say: "since " + itoa(minutes), Err: errors.New("cause")})
	}
	const inUse, soon, none = "the Talos credential is in use", "the Talos credential ends soon", "there is no usable Talos credential"
	for i, step := range []struct {
		state upstream.CredentialState
		says  []string
	}{
		{lives("a", 1, 48*time.Hour), []string{inUse}},
		{lives("a", 1, 48*time.Hour), nil},
		{lives("a", 2, 48*time.Hour), []string{inUse}},
		{lives("a", 2, 48*time.Hour), nil},
		{lives("a", 3, time.Hour), []string{inUse, soon}},
		{lives("a", 3, time.Hour), nil},
		{sealed(), []string{none}},
		{sealed(), nil},
		{lacks("a", 0, &upstream.CredentialError{Reason: "away"}), []string{none}},
		{lives("a", 3, time.Hour), []string{inUse, soon}},
	} {
		var log bytes.Buffer
		noted.look(t.Context(), slog.New(slog.NewTextHandler(&log, nil)), []upstream.CredentialState{step.state}, credentialDay)
		var says []string
		for _, line := range strings.Split(strings.TrimSpace(log.String()), "\n") {
			for _, m := range []string{inUse, soon, none} {
				if strings.Contains(line, m) && strings.Contains(line, "cluster=a") {
					says = append(says, m)
				}
			}
		}
		if d := cmp.Diff(step.says, says); d != "" {
			t.Errorf("step %d (-want +got):\n%s", i, d)
		}
	}
	// The same certificate gets near its end while it is in use.
	near := credentialLog{}
	var log bytes.Buffer
	to := slog.New(slog.NewTextHandler(&log, nil))
	for _, now := range []time.Time{credentialDay, credentialDay.Add(30 * time.Hour), credentialDay.Add(40 * time.Hour)} {
		near.look(t.Context(), to, []upstream.CredentialState{lives("a", 1, 48*time.Hour)}, now)
	}
	if strings.Count(log.String(), inUse) != 1 || strings.Count(log.String(), soon) != 1 {
		t.Errorf("the log is %s", log.String())
	}
	near.look(t.Context(), to, nil, credentialDay)
	if len(near) != 0 {
		t.Error("a cluster that is gone is remembered")
	}
}

// The watch over the credentials looks at once, and ends with its context.
func TestTheCredentialsAreLookedAtFromTheStart(t *testing.T) {
	t.Parallel()
	h, _ := withCredentials(t, nil)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); h.gw.WatchCredentials(ctx) }()
	eventually(t, "the credential in the log", func() bool {
		return strings.Contains(h.logs.String(), "the Talos credential is in use") && strings.Contains(h.logs.String(), "version=1")
	})
	cancel()
	<-done
}
