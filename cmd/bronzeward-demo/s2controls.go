package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// draft is a copy of the live law with edits by file.
func (d *drafting) draft(edits map[string]string) (string, error) {
	dir, err := os.MkdirTemp(d.dir, "draft-")
	if err != nil {
		return "", err
	}
	if err := os.CopyFS(dir, os.DirFS(d.w.PolicyDir())); err != nil {
		return "", err
	}
	for name, text := range edits {
		if err := os.WriteFile(filepath.Join(dir, filepath.FromSlash(name)), []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// badDrafts are laws that never become live. The live one stays, on both replicas.
func (d *drafting) badDrafts(ctx context.Context) error {
	revision, err := d.live(ctx)
	if err != nil {
		return err
	}
	const site = "bronzeward/rules/site/site.rego"
	for _, bad := range []struct{ what, text, says string }{
		{"does not compile", siteRule + "\nallow if nothing\n", "site.rego"},
		{"is written in the old Rego", "package bronzeward.rules.site\n\ndeny[found] { found := {} }\n", "site.rego"},
		{"gives a number for a reason", "# METADATA\n# title: site\npackage bronzeward.rules.site\n\n# METADATA\n# title: a number\n# custom:\n#   code: BW-SITE-001\n#   hint: \"\"\ndeny contains 7 if input.call.class == \"read\"\n", "sample"},
	} {
		dir, err := d.draft(map[string]string{site: bad.text, "bronzeward/rules/site/site_test.rego": "package bronzeward.rules.site_test\n"})
		if err != nil {
			return err
		}
		out, err := d.w.Bronzeward(ctx, "sven", "policy", "activate", dir)
		if err := d.refused("a law that "+bad.what, out, err, "the live one stays", bad.says); err != nil {
			return err
		}
		if err := d.stays(ctx, revision); err != nil {
			return err
		}
	}
	d.did("controls: a law that does not compile, one in Rego v0, and one whose rule gives a number are refused by their file; the live law stays")
	return nil
}

// withoutTheLaw makes live, behind the house's back, what no replica can load: it refuses to decide.
func (d *drafting) withoutTheLaw(ctx context.Context) error {
	revision, err := d.live(ctx)
	if err != nil {
		return err
	}
	if out, err := d.w.Talosctl(ctx, "vera", "-n", "worker-1", "version"); err != nil {
		return fmt.Errorf("a read: %w\n%s", err, out)
	}
	const other = "eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee"
	if err := errors.Join(
		d.exec(ctx, "insert into control.bundles (revision, content, entry_id) select $1, content, entry_id from control.bundles where revision = $2", other, revision),
		d.exec(ctx, "update control.live_bundle set revision = $1, counter = counter + 1", other),
		d.exec(ctx, "update control.authority set version = version + 1"),
	); err != nil {
		return err
	}
	if err := comesAbout(ctx, "the replica to notice", func() (bool, error) {
		out, err := d.w.Talosctl(ctx, "vera", "-n", "worker-1", "version")
		return err != nil && strings.Contains(out, "BW-POLICY-001"), nil
	}); err != nil {
		return err
	}
	if err := errors.Join(
		d.exec(ctx, "update control.live_bundle set revision = $1, counter = counter + 1", revision),
		d.exec(ctx, "update control.authority set version = version + 1"),
		d.exec(ctx, "delete from control.bundles where revision = $1", other),
	); err != nil {
		return err
	}
	if err := d.everywhere(ctx, revision); err != nil {
		return err
	}
	if out, err := d.w.Talosctl(ctx, "vera", "-n", "worker-1", "version"); err != nil {
		return fmt.Errorf("a read under the law that is back: %w\n%s", err, out)
	}
	d.did("control: a revision is made live in the database whose bytes are another's: no replica takes it, every call is refused, BW-POLICY-001, until the law is back")
	return nil
}
