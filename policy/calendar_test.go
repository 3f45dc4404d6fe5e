package policy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	goodEntry  = `name: w, clusters: [lab], days: [Monday], from: "09:00", to: "17:00", zone: Europe/Berlin`
	datedEntry = `name: d, clusters: [lab], from: "2028-02-28 00:00", to: "2028-02-29 12:00", zone: UTC`
)

// calendarEntries are entries of a freeze, and a piece of what is said of each; "" for a good one.
func calendarEntries(t *testing.T) map[string]string {
	t.Helper()
	with := func(entry, old, now string) string {
		if !strings.Contains(entry, old) {
			t.Fatalf("%s does not hold %s", entry, old)
		}
		return strings.Replace(entry, old, now, 1)
	}
	return map[string]string{
		goodEntry:                         "",
		datedEntry:                        "",
		with(goodEntry, "17:00", "24:00"): "",
		with(goodEntry, "17:00", "04:00"): "",
		goodEntry + `, overriders: {people: [{issuer: "https://i", subject: s}], groups: [g]}`: "",
		with(goodEntry, "Europe/Berlin", "Europe/Berln"):                                       `"Europe/Berln" is no time zone`,
		with(goodEntry, "Europe/Berlin", "Local"):                                              `"Local" is no time zone`,
		with(goodEntry, "Europe/Berlin", `""`):                                                 `"" is no time zone`,
		with(goodEntry, "[Monday]", "[monday]"):                                                `"monday" is no day of the week`,
		with(goodEntry, "[Monday]", "[Mon]"):                                                   `"Mon" is no day of the week`,
		with(goodEntry, "[Monday]", "Monday"):                                                  "days is a list",
		with(goodEntry, "[Monday]", "[]"):                                                      "days is a list",
		with(goodEntry, `"09:00"`, `"9:00"`):                                                   `"9:00" is no time of day`,
		with(goodEntry, `"17:00"`, `"25:00"`):                                                  `"25:00" is no time of day`,
		with(goodEntry, `"17:00"`, `"09:00"`):                                                  "never is",
		with(goodEntry, "[lab]", "lab"):                                                        "clusters is a list",
		with(goodEntry, "[lab]", "[]"):                                                         "clusters is a list",
		with(goodEntry, "name: w", "name: 7"):                                                  "no name",
		with(datedEntry, "2028-02-29", "2027-02-29"):                                           `"2027-02-29 12:00" is no day`,
		with(datedEntry, `"2028-02-28 00:00"`, "2028-02-28"):                                   "is no day with its time",
		with(datedEntry, "2028-02-29 12:00", "2028-02-27 12:00"):                               "not after",
		goodEntry + `, overriders: [olga]`:                                                     "overriders is a map",
		goodEntry + `, overriders: {group: [a]}`:                                               `"group" is no key`,
		goodEntry + `, overriders: {groups: a}`:                                                "groups is a list",
		goodEntry + `, overriders: {groups: [""]}`:                                             "groups is a list of names",
		goodEntry + `, overriders: {people: [olga]}`:                                           "an issuer and a subject",
		goodEntry + `, overriders: {people: [{subject: olga}]}`:                                "an issuer and a subject",
	}
}

func calendarLaw(t *testing.T, calendar, entry string) *Bundle {
	t.Helper()
	b, err := Shipped()
	if err != nil {
		t.Fatal(err)
	}
	b, err = OverlayFiles(b, File{Path: "bronzeward/data.yaml", Body: fmt.Appendf(nil, "%s:\n  - {%s}\n", calendar, entry)})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestTheCheckNamesWhatIsWrongInACalendar(t *testing.T) {
	for entry, want := range calendarEntries(t) {
		t.Run(entry, func(t *testing.T) {
			b := &Bundle{files: []File{{Path: "bronzeward/data.yaml", Body: fmt.Appendf(nil, "freezes:\n  - {%s}\n", entry)}}}
			var said []string
			for _, f := range calendarFaults(b) {
				said = append(said, f.Message)
				if f.Line == 0 || f.File == "" {
					t.Errorf("a fault has no place: %+v", f)
				}
			}
			all := strings.Join(said, "\n")
			if (want == "") != (all == "") || !strings.Contains(all, want) {
				t.Errorf("the check says %q, want %q", all, want)
			}
		})
	}
}

// What the check finds wrong the law refuses, each entry as the only one and as one of the
// freezes of its cluster; the bundle's own tests have more of them.
func TestTheLawRefusesWhatTheCheckFinds(t *testing.T) {
	for entry, closed := range map[string]bool{
		goodEntry: false,
		strings.Replace(goodEntry, `"17:00"`, `"5pm"`, 1):                  true,
		strings.Replace(datedEntry, "2028-02-29", "2027-02-29", 1):         true,
		strings.Replace(datedEntry, `"2028-02-28 00:00"`, "2028-02-28", 1): true,
	} {
		b := calendarLaw(t, "freezes", entry)
		e := New(EngineConfig{Budget: time.Minute})
		if err := e.Use(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		codes := e.Decide(t.Context(), sampleApply()).Codes()
		if got := slices.Contains(codes, "BW-WINDOWS-003"); got != closed || (len(calendarFaults(b)) > 0) != closed {
			t.Errorf("%s: the law says %v, the check %v", entry, codes, calendarFaults(b))
		}
	}
}

// What is one too many misleads people and not the law.
func TestAKeyNobodyKnowsIsNamed(t *testing.T) {
	for calendar, entry := range map[string]string{
		"windows": goodEntry + ", overriders: {groups: [g]}",
		"freezes": goodEntry + ", until: x",
	} {
		faults := calendarFaults(&Bundle{files: []File{{Path: "bronzeward/data.yaml", Body: fmt.Appendf(nil, "%s:\n  - {%s}\n", calendar, entry)}}})
		if len(faults) != 1 || !strings.Contains(faults[0].Message, "is no key of an entry") {
			t.Errorf("%s: faults are %+v", calendar, faults)
		}
	}
}

// A zone that is misspelt makes the built-in fail, and a decision that fails is a denial, of
// the cluster it is about; others are judged on.
func TestAZoneNobodyKnowsDeniesEveryApplyOfItsCluster(t *testing.T) {
	for _, calendar := range []string{"windows", "freezes"} {
		e := New(EngineConfig{})
		if err := e.Use(context.Background(), calendarLaw(t, calendar, strings.Replace(goodEntry, "Europe/Berlin", "Europe/Berln", 1))); err != nil {
			t.Fatal(err)
		}
		f := sampleApply()
		f.Change = sampleChange()
		if d := e.Decide(context.Background(), f); d.Allow || d.Codes()[0] != CodeEvaluation {
			t.Errorf("%s: allow is %t, codes %v", calendar, d.Allow, d.Codes())
		}
		f.Machine.Cluster, f.Call.Cluster = "prod", "prod"
		if d := e.Decide(context.Background(), f); !d.Allow {
			t.Errorf("%s: another cluster is refused: %v", calendar, d.Codes())
		}
	}
}

func TestCheckAndTrialNameTheEntry(t *testing.T) {
	misspelt := strings.Replace(goodEntry, "Monday", "monday", 1)
	if _, err := Trial(t.Context(), calendarLaw(t, "windows", misspelt)); err == nil || !strings.Contains(err.Error(), `"monday" is no day of the week`) {
		t.Errorf("the trial says %v", err)
	}
	for name, text := range map[string]string{
		"bronzeward/data.yaml": "# calendar\nwindows:\n  - {" + misspelt + "}\n",
		"data.yaml":            "bronzeward:\n  windows:\n  - {" + misspelt + "}\n",
		"bronzeward/data.json": "{\n\"windows\":\n[{\"name\": \"w\", \"clusters\": [\"lab\"], \"days\": [\"monday\"], \"from\": \"09:00\", \"to\": \"17:00\", \"zone\": \"UTC\"}]}",
	} {
		faults, err := Check(t.Context(), files(map[string]string{name: text}))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(faults, func(f Fault) bool {
			return f.File == name && f.Line == 3 && strings.Contains(f.Message, `"monday" is no day`)
		}) {
			t.Errorf("%s: the check says %+v", name, faults)
		}
	}
}
