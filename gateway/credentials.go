package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"bronzeward/gateway/upstream"
)

// The life of the Talos credentials: what callers are told when there is none to use, and how
// they stand, as metrics, in /readyz and in the log.

// forCaller is an error that has a sentence for callers, without causes or secrets.
type forCaller interface{ ForCaller() string }

// mostSentence bounds a sentence that is another part's.
const mostSentence = 300

// unreadable is the code of an error about a machine, and what callers are told. What is wrong
// with our own credential is said in its own sentence; the cause is for the log.
func unreadable(machine, doing string, cause error) (code, message string) {
	switch upstream.ClassOf(cause) {
	case upstream.ClassCredential:
		code = "BW-UPSTREAM-003"
	case upstream.ClassNoCredential:
		code = "BW-UPSTREAM-004"
	default:
		return "BW-UPSTREAM-001", fmt.Sprintf("machine %s cannot be %s: %s", machine, doing, oneLine(cause.Error()))
	}
	return code, fmt.Sprintf("machine %s cannot be %s: %s", machine, doing, sentenceOf(cause))
}

// sentenceOf is what callers are told about a credential that cannot be used.
func sentenceOf(cause error) string {
	var own forCaller
	if errors.As(cause, &own) {
		if s := oneLine(own.ForCaller()); s != "" {
			return cut(s, mostSentence)
		}
	}
	return "the gateway's own Talos credential is not usable; its log says why"
}

// credentials is how the credential of each cluster stands: of those one is held for, and of
// those that have machines. It asks memory alone.
func (g *Gateway) credentials(ctx context.Context) []upstream.CredentialState {
	var clusters []string
	for _, m := range g.store.Snapshot().Machines {
		if m.Retired == nil {
			clusters = append(clusters, m.Cluster)
		}
	}
	return g.upstream.Credentials(ctx, clusters...)
}

// readyCredential is one cluster's credential as /readyz shows it.
type readyCredential struct {
	// Cluster is empty when one credential is for any cluster.
	Cluster string `json:"cluster"`
	// Ends is empty when it cannot be used.
	Ends    string `json:"ends"`
	Version int64  `json:"version"`
}

// credentialsReady is how the credentials stand, and a sentence for each that somebody should
// look after.
func credentialsReady(states []upstream.CredentialState, now time.Time) (out []readyCredential, warnings []string) {
	out, warnings = []readyCredential{}, []string{}
	for _, s := range states {
		one := readyCredential{Cluster: s.Cluster, Version: s.Version}
		switch {
		case s.Err != nil:
			warnings = append(warnings, sentenceOf(s.Err))
		case s.NearEnd(now):
			warnings = append(warnings, endsSoon(s))
		}
		if s.Err == nil {
			one.Ends = s.Ends.UTC().Format(time.RFC3339)
		}
		out = append(out, one)
	}
	return out, warnings
}

// endsSoon is the warning about a credential of whose life less than a third is left.
func endsSoon(s upstream.CredentialState) string {
	of := ""
	if s.Cluster != "" {
		of = " of cluster " + s.Cluster
	}
	return fmt.Sprintf("the Talos credential%s ends %s; put a new one in its place before", of, s.Ends.UTC().Format(time.RFC3339))
}

// credentialMetrics tells how the credentials stand whenever it is asked.
type credentialMetrics struct {
	states       func(context.Context) []upstream.CredentialState
	end, version *prometheus.Desc
}

func newCredentialMetrics(states func(context.Context) []upstream.CredentialState) credentialMetrics {
	return credentialMetrics{
		states: states,
		end: prometheus.NewDesc("bronzeward_talos_credential_end_timestamp_seconds",
			"When the credential shown to nodes ends, in Unix time; 0 when none is usable.", []string{"cluster"}, nil),
		version: prometheus.NewDesc("bronzeward_talos_credential_version",
			"Version of the secret that the credential shown to nodes is; 0 for files, and when none is known.", []string{"cluster"}, nil),
	}
}

// Describe gives both.
func (m credentialMetrics) Describe(to chan<- *prometheus.Desc) {
	to <- m.end
	to <- m.version
}

// Collect asks memory alone.
func (m credentialMetrics) Collect(to chan<- prometheus.Metric) {
	for _, s := range m.states(context.Background()) {
		end := 0.0
		if s.Err == nil {
			end = float64(s.Ends.Unix())
		}
		to <- prometheus.MustNewConstMetric(m.end, prometheus.GaugeValue, end, s.Cluster)
		to <- prometheus.MustNewConstMetric(m.version, prometheus.GaugeValue, float64(s.Version), s.Cluster)
	}
}

// credentialEvery is how often the log looks at the credentials.
const credentialEvery = 15 * time.Second

// WatchCredentials logs, from the start until ctx ends, which credentials are in use, once per
// version, and once more when one gets near its end or cannot be used. Nothing depends on it.
func (g *Gateway) WatchCredentials(ctx context.Context) {
	tick := time.NewTicker(credentialEvery)
	defer tick.Stop()
	noted := credentialLog{}
	for {
		noted.look(ctx, g.log, g.credentials(ctx), time.Now())
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// credentialLog is what the log was told last, by cluster. One goroutine's.
type credentialLog map[string]credentialNote

// credentialNote is what was said about one cluster's credential.
type credentialNote struct {
	version int64
	ends    time.Time
	near    bool
	trouble string
}

// troubleOf is one word for why a credential cannot be used: sentences may count the minutes.
func troubleOf(err error) string {
	var reason reasonClass
	if errors.As(err, &reason) {
		return string(upstream.ClassOf(err)) + " " + reason.ReasonClass()
	}
	return string(upstream.ClassOf(err))
}

// look tells the log what is new.
func (l credentialLog) look(ctx context.Context, log *slog.Logger, states []upstream.CredentialState, now time.Time) {
	for _, s := range states {
		last, known := l[s.Cluster]
		note := credentialNote{version: s.Version, ends: s.Ends, near: s.NearEnd(now)}
		if s.Err != nil {
			note.trouble = troubleOf(s.Err)
		}
		l[s.Cluster] = note
		if known && note == last {
			continue
		}
		attrs := []any{slog.String("cluster", s.Cluster), slog.Int64("version", s.Version)}
		if s.Err != nil {
			log.WarnContext(ctx, "there is no usable Talos credential", append(attrs, slog.Any("cause", s.Err))...)
			continue
		}
		attrs = append(attrs, slog.Time("ends", s.Ends.UTC()))
		if !known || note.version != last.version || !note.ends.Equal(last.ends) {
			log.InfoContext(ctx, "the Talos credential is in use", attrs...)
		}
		if note.near {
			log.WarnContext(ctx, "the Talos credential ends soon", attrs...)
		}
	}
	for cluster := range l {
		if !slices.ContainsFunc(states, func(s upstream.CredentialState) bool { return s.Cluster == cluster }) {
			delete(l, cluster)
		}
	}
}
