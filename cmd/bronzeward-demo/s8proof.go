package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"bronzeward/fixtures/world"
)

// keep keeps the newest checkpoint on the auditor's own disk; a second time it demands that the
// new one contains the kept one.
func (i *inspection) keep(ctx context.Context, database string) (string, error) {
	return i.auditor(ctx, database, "decisions", "checkpoint", "--public-key", "book.pub", "--keep", "kept.checkpoint")
}

// signed waits until a checkpoint covers everything there is now.
func (i *inspection) signed(ctx context.Context) error {
	const rest = `select (select count(*) from audit.unsequenced)
		+ (select count(*) from audit.leaves) - coalesce((select max(size) from audit.checkpoints), 0)`
	for {
		var n int64
		if err := i.db.QueryRow(ctx, rest).Scan(&n); err != nil || n == 0 {
			return err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("%d rows are under no checkpoint: %w", n, ctx.Err())
		}
	}
}

// whole verifies the whole book as the auditor, and keeps a copy of the house's database.
func (i *inspection) whole(ctx context.Context) error {
	if err := i.signed(ctx); err != nil {
		return err
	}
	if out, err := i.keep(ctx, world.Database); err != nil {
		return fmt.Errorf("keeping a checkpoint: %w\n%s", err, out)
	}
	out, err := i.auditor(ctx, world.Database, "decisions", "verify", "--public-key", "book.pub", "--checkpoint", "kept.checkpoint")
	if err != nil {
		return err
	}
	if !strings.Contains(out, "whole") {
		return fmt.Errorf("verify does not say that the book is whole:\n%s", out)
	}
	i.did("verify, with the login, the key and a kept checkpoint: %s", lastLine(out))
	return i.copy(ctx, earlyCopy)
}

// proven takes a proof of one decision to another machine.
func (i *inspection) proven(ctx context.Context) error {
	proof, err := i.auditor(ctx, world.Database, "decisions", "prove", i.applied)
	if err != nil {
		return err
	}
	path := filepath.Join(i.desk, "proof.json")
	if err := os.WriteFile(path, []byte(proof), 0o600); err != nil {
		return err
	}
	out, err := i.elsewhere(ctx, "decisions", "check", "proof.json", "--public-key", "book.pub")
	if err != nil {
		return err
	}
	for _, must := range []string{i.applied, "otto", "worker-1"} {
		if !strings.Contains(out, must) {
			return fmt.Errorf("check does not say %q:\n%s", must, out)
		}
	}
	i.did("a proof of one decision checks in another folder, with the public key alone: %s", lastLine(out))
	for what, change := range map[string]func([]byte) []byte{
		"with another index": func(raw []byte) []byte { return bytes.Replace(raw, []byte(`"index": `), []byte(`"index": 1`), 1) },
		"cut short":          func(raw []byte) []byte { return raw[:len(raw)/2] },
	} {
		altered := change([]byte(proof))
		if bytes.Equal(altered, []byte(proof)) {
			return fmt.Errorf("the proof was not altered:\n%s", proof)
		}
		if err := os.WriteFile(path, altered, 0o600); err != nil {
			return err
		}
		if out, err := i.elsewhere(ctx, "decisions", "check", "proof.json", "--public-key", "book.pub"); err == nil {
			return fmt.Errorf("a proof %s checks:\n%s", what, out)
		}
	}
	i.did("control: an altered proof does not check")
	return os.WriteFile(path, []byte(proof), 0o600)
}

// followed has the book grow, and the kept checkpoint with it.
func (i *inspection) followed(ctx context.Context) error {
	before, err := os.ReadFile(filepath.Join(i.desk, "kept.checkpoint"))
	if err != nil {
		return err
	}
	if out, err := i.w.Talosctl(ctx, "vera", "-n", "worker-1", "version"); err != nil {
		return fmt.Errorf("a viewer's read: %w\n%s", err, out)
	}
	if err := i.signed(ctx); err != nil {
		return err
	}
	if out, err := i.keep(ctx, world.Database); err != nil {
		return fmt.Errorf("keeping the next checkpoint: %w\n%s", err, out)
	}
	after, err := os.ReadFile(filepath.Join(i.desk, "kept.checkpoint"))
	if err != nil {
		return err
	}
	if bytes.Equal(before, after) {
		return errors.New("the kept checkpoint did not move although the book grew")
	}
	i.did("the book grew; the checkpoint that the auditor keeps was proven to be part of the new one")
	return nil
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndex(s, "\n")+1:]
}
