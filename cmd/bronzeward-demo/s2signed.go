package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"bronzeward/policytest/lawsign"
)

// signed pins a key: what is not signed by it, or older than what was live, never becomes live; to go
// back is an act of its own; and a replica without the key takes nothing for the law.
func (d *drafting) signed(ctx context.Context) error {
	ci, err := lawsign.New()
	if err != nil {
		return err
	}
	thief, err := lawsign.New()
	if err != nil {
		return err
	}
	if err := number(ci, d.w.PolicyDir(), 1); err != nil {
		return err
	}
	if out, err := d.w.Bronzeward(ctx, "sven", "policy", "activate", d.w.PolicyDir()); err != nil {
		return fmt.Errorf("activating the signed law: %w\n%s", err, out)
	}
	if err := d.pin(ctx, ci); err != nil {
		return err
	}
	first, err := d.live(ctx)
	if err != nil {
		return err
	}
	if err := d.everywhere(ctx, first); err != nil {
		return err
	}
	d.did("a key is pinned: both replicas start anew with the signed law")
	for _, bad := range []struct {
		what, says string
		sign       func(dir string) error
	}{
		{"is not signed", "BW-BUNDLE-001", func(dir string) error { return os.Remove(dir + "/.signatures.json") }},
		{"was changed after it was signed", "BW-BUNDLE-001", func(string) error { return nil }},
		{"somebody else has signed", "BW-BUNDLE-001", func(dir string) error { return number(thief, dir, 2) }},
		{"is older than the live one", "BW-BUNDLE-002", func(dir string) error { return number(ci, dir, 1) }},
	} {
		dir, err := d.loosened(bad.sign)
		if err != nil {
			return err
		}
		out, err := d.w.Bronzeward(ctx, "sven", "policy", "activate", dir)
		if err := d.refused("a law that "+bad.what, out, err, bad.says); err != nil {
			return err
		}
		if err := d.stays(ctx, first); err != nil {
			return err
		}
	}
	d.did("controls: a law that is unsigned, was changed afterwards, is signed by another key, or has an older number is refused; the live one stays on both replicas")
	return d.andBack(ctx, ci, first)
}

// number gives a law its counter and signs it.
func number(by lawsign.Key, dir string, counter int64) error {
	if err := lawsign.Number(dir, counter); err != nil {
		return err
	}
	return by.Sign(dir)
}

// loosened is a draft that lets warn what the live law denies, signed in one way or another.
func (d *drafting) loosened(sign func(dir string) error) (string, error) {
	dir, err := d.draft(nil)
	if err != nil {
		return "", err
	}
	if err := edit(dir, "BW-SITE-001: deny", "BW-SITE-001: warn"); err != nil {
		return "", err
	}
	return dir, sign(dir)
}

// pin puts a key into the configuration and starts both replicas anew.
func (d *drafting) pin(ctx context.Context, key lawsign.Key) error {
	file := d.w.Path("law-ci.pub")
	if err := os.WriteFile(file, []byte(key.Public), 0o600); err != nil {
		return err
	}
	extra := fmt.Sprintf("policy:\n  keys:\n    ci: {file: %s, algorithm: %s}\n", file, lawsign.Algorithm)
	d.w.Extra += extra
	config, err := os.OpenFile(d.w.ConfigFile(), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if _, err := config.WriteString(extra); err != nil {
		return err
	}
	if err := config.Close(); err != nil {
		return err
	}
	for _, name := range []string{"gateway-1", "gateway-2"} {
		g := d.w.Gateways[name]
		if err := g.Stop(); err != nil {
			return err
		}
		delete(d.w.Gateways, name)
		if _, err := d.w.StartGatewayAt(ctx, name, g.Endpoint); err != nil {
			return err
		}
	}
	d.w = d.w.At(d.w.Gateways["gateway-1"]) // which has another address now
	return nil
}

// andBack makes the next signed law live, and goes back to the one before it.
func (d *drafting) andBack(ctx context.Context, ci lawsign.Key, first string) error {
	next, err := d.loosened(func(dir string) error { return number(ci, dir, 2) })
	if err != nil {
		return err
	}
	if out, err := d.w.Bronzeward(ctx, "sven", "policy", "activate", next); err != nil {
		return fmt.Errorf("activating the next signed law: %w\n%s", err, out)
	}
	second, err := d.live(ctx)
	if err != nil {
		return err
	}
	if second == first {
		return fmt.Errorf("law 2 has the revision of law 1")
	}
	if err := d.everywhere(ctx, second); err != nil {
		return err
	}
	out, err := d.w.Bronzeward(ctx, "sven", "policy", "rollback", "previous")
	if err != nil || !strings.Contains(out, "revision "+first+" is live") {
		return fmt.Errorf("going back: %w\n%s", err, out)
	}
	if err := d.stays(ctx, first); err != nil {
		return err
	}
	d.did("law 2, signed, is live on both replicas; `policy rollback previous` goes back to law 1, whose signature still holds")
	other, err := lawsign.New()
	if err != nil {
		return err
	}
	file := d.w.Path("law-other.pub")
	if err := os.WriteFile(file, []byte(other.Public), 0o600); err != nil {
		return err
	}
	before := d.w.Extra
	d.w.Extra = strings.Replace(before, "policy:\n  keys:\n", "policy:\n  keys:\n    other: {file: "+file+", algorithm: "+lawsign.Algorithm+"}\n#", 1)
	defer func() { d.w.Extra = before }()
	if _, err := d.w.StartGateway(ctx, "gateway-3"); err == nil || !strings.Contains(err.Error(), "back into policy.keys") {
		return fmt.Errorf("a replica without the key of the live law gets ready, or does not say why not: %w", err)
	}
	delete(d.w.Gateways, "gateway-3")
	d.did("control: a replica that pins another key alone does not get ready, and its log says which law lacks which key")
	return nil
}
