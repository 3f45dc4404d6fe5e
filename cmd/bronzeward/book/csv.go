package book

import (
	"encoding/csv"
	"io"
	"strconv"
	"strings"
)

// csvHeader names the columns of -o csv. A column that is added comes behind these; none goes
// away or moves.
func csvHeader() []string {
	return []string{
		"time", "id", "kind", "verdict", "codes", "issuer", "subject", "client_address", "machine", "cluster", "method", "resource", "class", "mode",
		"dry_run", "digest", "base_digest", "persistent_digest", "change", "attempt", "policy_revision", "count", "outcome",
	}
}

// writeCSV writes decisions as RFC 4180 has it, with LF line ends. Codes are parted by spaces.
func writeCSV(w io.Writer, list []decision) error {
	out := csv.NewWriter(w)
	_ = out.Write(csvHeader()) // Error says it
	for _, v := range list {
		cells := []string{
			at(v.Time), v.ID, v.Kind, v.Verdict, strings.Join(v.Codes, " "), v.Issuer, v.Subject, v.Client, v.Machine, v.Cluster, v.Method, v.Resource,
			v.Class, v.Mode, strconv.FormatBool(v.DryRun), v.Digest, v.Base, v.Persistent, v.Change, v.Attempt, v.Revision,
			strconv.FormatInt(v.Count, 10), v.Outcome,
		}
		for i := range cells {
			cells[i] = csvCell(cells[i])
		}
		_ = out.Write(cells)
	}
	out.Flush()
	return out.Error()
}

// csvCell puts an apostrophe before what a spreadsheet would compute: strangers choose some of
// these texts, and a formula may send away what stands beside it.
func csvCell(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r\n", rune(text[0])) {
		return "'" + text
	}
	return text
}
