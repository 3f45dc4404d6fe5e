package law

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/policy"
)

// regalReport is what `regal lint --format json` prints, as far as it is used. Its fields are
// Regal's own, version 0.42.
type regalReport struct {
	Violations []struct {
		Title       string `json:"title"`
		Description string `json:"description"`
		Category    string `json:"category"`
		Location    struct {
			File string `json:"file"`
			Row  int    `json:"row"`
		} `json:"location"`
		Related []struct {
			Ref string `json:"ref"`
		} `json:"related_resources"`
	} `json:"violations"`
}

// lint gives Regal's findings. Regal that is not there is said, and no error unless it was named.
func (p *policyCheckCmd) lint(ctx context.Context, g *cli.Globals) ([]policy.Fault, error) {
	if p.Regal == "" {
		return nil, nil
	}
	program, err := exec.LookPath(p.Regal)
	if errors.Is(err, exec.ErrNotFound) && p.Regal == "regal" {
		fmt.Fprintln(g.ErrOut, "regal is not on PATH: its lint was left out (https://www.openpolicyagent.org/projects/regal)")
		return nil, nil
	}
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("looking for Regal: %w", err))
	}
	args := []string{"lint", "--format", "json"}
	config := filepath.Join(p.Dir, ".regal", "config.yaml")
	if _, err := os.Stat(config); err == nil {
		args = append(args, "--config-file", config)
	}
	var out, errOut bytes.Buffer
	run := exec.CommandContext(ctx, program, append(args, p.Dir)...)
	run.Stdout, run.Stderr = &out, &errOut
	failed := run.Run()
	var report regalReport
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		return nil, fmt.Errorf("%s gave no report: %w: %s", program, errors.Join(failed, err), bytes.TrimSpace(errOut.Bytes()))
	}
	if failed != nil && len(report.Violations) == 0 {
		return nil, fmt.Errorf("%s failed: %w: %s", program, failed, bytes.TrimSpace(errOut.Bytes()))
	}
	var faults []policy.Fault
	for _, v := range report.Violations {
		f := policy.Fault{File: v.Location.File, Line: v.Location.Row, Message: "regal: " + v.Description, Hint: "see " + v.Category + "/" + v.Title}
		if rel, err := filepath.Rel(p.Dir, v.Location.File); err == nil && filepath.IsLocal(rel) {
			f.File = filepath.ToSlash(rel)
		}
		if len(v.Related) > 0 {
			f.Hint = v.Related[0].Ref
		}
		faults = append(faults, f)
	}
	return faults, nil
}
