package control

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bronzeward/fixtures/faults"
)

// A fault that is ordered for one transaction meets no other: each statement that tests know a
// transaction by stands in one query. What settles somebody else's attempt is not what its owner
// ends it by.
func TestEachFaultIsOfOneTransaction(t *testing.T) {
	files, err := filepath.Glob("queries/*.sql")
	if err != nil || len(files) == 0 {
		t.Fatalf("there are %d queries: %v", len(files), err)
	}
	for part, want := range map[string]string{
		faults.Capturing: "change_add.sql", faults.Approving: "approval_add.sql", faults.Deciding: "attempt_open.sql",
		faults.Adopting: "adoption_add.sql", faults.Closing: "attempt_close.sql",
	} {
		var found []string
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(text), part) {
				found = append(found, filepath.Base(file))
			}
		}
		if !slices.Equal(found, []string{want}) {
			t.Errorf("%q is in %v, and means %s", part, found, want)
		}
	}
}
