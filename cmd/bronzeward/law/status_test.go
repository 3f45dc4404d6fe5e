package law

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/gateway/control"
	"bronzeward/policy"
)

func aLiveLaw() control.LiveLaw {
	at := time.Date(2026, 11, 30, 9, 12, 44, 0, time.UTC)
	live := "1f4af3731c21b68007e1797cccc5eba0f81fa3aaf6e81b4862b5db4b71bdaa97"
	replica := func(instance, loaded, why string, silent time.Duration) control.Replica {
		return control.Replica{
			Instance: instance, Process: uuid.Max, Loaded: loaded, Counter: 4, Wanted: live, FailedWhy: why, Version: "1.0.0",
			StartedAt: at, HeardAt: at.Add(time.Hour - silent), Silent: silent,
		}
	}
	return control.LiveLaw{
		Replicas: control.Replicas{Live: live, Counter: 4, List: []control.Replica{
			replica("gateway-1", live, "", 3*time.Second),
			replica("gateway-2", "", "the law 1f4af3731c21 is signed by none of the keys in policy.keys (2025): the key 2026 is missing", time.Second),
			replica("gateway-\u0440", live, "", 3*time.Minute),
		}},
		Activation: &control.BundleActivation{
			Counter: 4, Revision: live, Way: control.WayActivate, Signed: 7, At: at, EntryID: uuid.MustParse("01a22ae7-2ed4-7a83-8d25-f5fec546a754"),
			Person: policy.Person{Issuer: "https://people.bronzeward.test", Subject: "sven"},
		},
		Proof: &control.BundleProof{KeyID: "2026", Counter: 7},
	}
}

// What people read of the live law and of each replica; a name that only looks like another is told apart.
func TestStatusForPeople(t *testing.T) {
	var out bytes.Buffer
	g := &cli.Globals{Output: "table", Console: cli.Console{Out: &out}}
	s := statusOf(aLiveLaw(), strings.Repeat("e", 64))
	s.OPA = "1.0"
	if err := showStatus(g, s); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(filepath.Join("testdata", "status.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), out.String()); d != "" {
		t.Error(d)
	}
}

// Programs are told the same, and each field is there where there is nothing, too.
func TestStatusForPrograms(t *testing.T) {
	for _, row := range []struct {
		live  control.LiveLaw
		agree string
		null  bool
	}{{aLiveLaw(), "no", false}, {control.LiveLaw{}, "unknown", true}} {
		var out bytes.Buffer
		if err := showStatus(&cli.Globals{Output: "json", Console: cli.Console{Out: &out}}, statusOf(row.live, "")); err != nil {
			t.Fatal(err)
		}
		var got map[string]any
		if err := json.Unmarshal(out.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		replicas, is := got["replicas"].([]any)
		if got["replicas_agree"] != row.agree || (got["activated"] == nil) != row.null || (got["signed"] == nil) != row.null || !is || len(replicas) != len(row.live.List) {
			t.Errorf("%s", out.String())
		}
		for i, state := range []string{"current", "lagging", "silent"} {
			if i < len(replicas) && replicas[i].(map[string]any)["state"] != state {
				t.Errorf("replica %d: %v", i, replicas[i])
			}
		}
	}
}
