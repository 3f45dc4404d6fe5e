package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"bronzeward/fixtures/world"
)

// leave ends a scenario's world. A scenario that held so far ends with its whole book judged again:
// each decision by its own law, on the facts recorded with it, has to come out the same.
func (s *stage) leave(ctx context.Context, w *world.World, err error) error {
	if err == nil {
		err = s.again(ctx, w)
	}
	return errors.Join(err, w.Close())
}

// again judges the book again, with the auditor's login and nothing else of the house.
func (s *stage) again(ctx context.Context, w *world.World) error {
	out, err := s.auditor(ctx, w, "policy", "replay", "-o", "json")
	if err != nil {
		return fmt.Errorf("judging the book again by its own laws: %w", err)
	}
	var report struct {
		Decisions, Same int64
		ByGateway       int64 `json:"by_gateway"`
		Unjudged        map[string]int64
		Lacking         map[string]int64
	}
	if err := json.NewDecoder(strings.NewReader(out)).Decode(&report); err != nil {
		return fmt.Errorf("reading the replay: %w\n%s", err, out)
	}
	if report.Same == 0 || report.Same+report.ByGateway != report.Decisions || len(report.Unjudged)+len(report.Lacking) > 0 {
		return fmt.Errorf("the book was not judged whole:\n%s", out)
	}
	s.did("the whole book judged again, each decision by its own law: %d of %d came out the same, the others no law made", report.Same, report.Decisions)
	return nil
}

// auditor runs a command with the auditor's database login and nothing else of the house.
func (s *stage) auditor(ctx context.Context, w *world.World, args ...string) (string, error) {
	desk, err := os.MkdirTemp(s.dir, "auditor-")
	if err != nil {
		return "", err
	}
	return w.Alone(ctx, desk, []string{"BRONZEWARD_AUDITOR_URL=" + w.Postgres.DSN(world.Database, "auditor")}, args...)
}
