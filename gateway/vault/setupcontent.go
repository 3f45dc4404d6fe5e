package vault

import (
	"context"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// contentSteps are what KV must hold before a gateway starts.
func contentSteps(ctx context.Context, c *Client, cfg SetupConfig) ([]Step, error) {
	var steps []Step
	for _, want := range []struct {
		what, path string
		make       func(context.Context) error
		// fault says what is wrong with what is there, empty when nothing is.
		fault func(context.Context, *Client) (string, error)
	}{
		{"digest keys, the first one", PathDigestKeys, func(ctx context.Context) error {
			_, err := NewDigestKeys(c, nil).Begin(max(cfg.FirstDigestKey, 1)).Ensure(ctx)
			return err
		}, digestKeysFault},
		{"authority for people's certificates", PathCA, func(ctx context.Context) error {
			_, err := EnsureAuthority(ctx, c, false)
			return err
		}, authorityFault},
	} {
		step := Step{What: fmt.Sprintf("%s, at %s/%s", want.what, c.kv, want.path), State: StateGood, do: want.make}
		was, err := c.everWas(ctx, planning, want.path)
		if err != nil {
			return nil, err
		}
		if !was {
			step.State = StateMissing
		} else if step.Detail, err = want.fault(ctx, c); err != nil {
			return nil, err
		} else if step.Detail != "" {
			step.State = StateWrong
		}
		steps = append(steps, step)
	}
	return steps, nil
}

// deletedSentence says how what was deleted comes back: its newest version that was not destroyed.
func (c *Client) deletedSentence(ctx context.Context, path string) string {
	newest := 0
	if data, err := c.read(ctx, planning, c.kv+"/metadata/"+path); err == nil {
		versions, _ := data["versions"].(map[string]any)
		for name, value := range versions {
			fields, _ := value.(map[string]any)
			if n, err := strconv.Atoi(name); err == nil && n > newest && fields["destroyed"] != true {
				newest = n
			}
		}
		if newest == 0 {
			return "it was destroyed: restore OpenBao from a backup"
		}
	}
	version := "N"
	if newest > 0 {
		version = strconv.Itoa(newest)
	}
	return fmt.Sprintf("it was deleted: bao kv undelete -mount=%s -versions=%s %s", c.kv, version, path)
}

// digestKeysFault unwraps nothing: it holds the times that were written down against the key's.
func digestKeysFault(ctx context.Context, c *Client) (string, error) {
	var file digestKeysFile
	_, err := c.get(ctx, planning, PathDigestKeys, &file)
	switch kindOf(err) {
	case KindMissing:
		return c.deletedSentence(ctx, PathDigestKeys), nil
	case KindMalformed:
		return "it has another shape", nil
	}
	if err != nil {
		return "", err
	}
	if err := file.check(); err != nil {
		return err.Error(), nil
	}
	info, err := newTransitKey(c, DigestKey).info(ctx, planning)
	if err != nil {
		return "", ignoreMissingKey(err)
	}
	for _, name := range slices.Sorted(maps.Keys(file.Keys)) {
		one := file.Keys[name]
		version, err := versionOf(one.Wrapped)
		switch made, listed := info.made[version]; {
		case err != nil:
			return name + " is not wrapped by Transit", nil
		case !listed:
			return fmt.Sprintf("%s is wrapped by version %d of %s, which OpenBao does not use any more: lower min_decryption_version, or restore OpenBao", name, version, DigestKey), nil
		case made != one.KeyMade:
			return fmt.Sprintf("%s is wrapped by a key %s that was recreated since: restore OpenBao from a backup that has the key", name, DigestKey), nil
		}
	}
	return "", nil
}

// authorityFault holds the authority's certificate against the key that is to sign for it.
func authorityFault(ctx context.Context, c *Client) (string, error) {
	file, _, err := readCA(ctx, c)
	switch kindOf(err) {
	case KindMissing:
		return c.deletedSentence(ctx, PathCA), nil
	case KindMalformed:
		return "it is no authority", nil
	}
	if err != nil {
		return "", err
	}
	current, _, err := file.parse()
	if err != nil {
		return err.Error(), nil
	}
	info, err := newTransitKey(c, CAKey).info(ctx, planning)
	if err != nil {
		return "", ignoreMissingKey(err)
	}
	block, _ := pem.Decode([]byte(info.publicKeys[file.KeyVersion]))
	if block != nil {
		public, err := x509.ParsePKIXPublicKey(block.Bytes)
		if ours, ok := public.(*ecdsa.PublicKey); err == nil && ok && ours.Equal(current.PublicKey) {
			return "", nil
		}
	}
	return fmt.Sprintf("it is of another key than version %d of %s: bronzeward openbao rotate-ca", file.KeyVersion, CAKey), nil
}

// ignoreMissingKey leaves it to the key's own step to say that it is missing.
func ignoreMissingKey(err error) error {
	if kindOf(err) == KindKeyMissing {
		return nil
	}
	return err
}
