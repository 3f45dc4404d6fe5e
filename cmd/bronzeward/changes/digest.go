package changes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"bronzeward/cmd/bronzeward/ask"
	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/gateway/httpapi/api"
)

// Digest computes or compares a configuration digest.
type Digest struct {
	clientFlags
	File    string `short:"f" required:"" placeholder:"FILE" help:"The machine configuration; - reads it from standard input. It is sent to the gateway, which keeps its digest and size and not the text."`
	Compare string `placeholder:"DIGEST" help:"Say whether it is this digest, as changes and decisions show it; the exit code is 3 when it is not."`
}

// digestForm is a digest as the gateway writes them.
var digestForm = regexp.MustCompile(`^(hmac-sha256:k[1-9][0-9]{0,8}|sha256):[0-9a-f]{64}$`)

// comparison is what -o json and yaml say of a comparison.
type comparison struct {
	api.ComputedDigest
	Compared string `json:"compared"`
	Same     bool   `json:"same"`
}

func (d *Digest) Run(ctx context.Context, g *cli.Globals) error {
	if d.Compare != "" && !digestForm.MatchString(d.Compare) {
		return cli.Usage(errors.New("--compare takes a whole digest, hmac-sha256:k1: or sha256: and 64 hex digits, as `bronzeward changes show` prints it"))
	}
	text, err := g.Configuration(d.File)
	if err != nil {
		return err
	}
	a, err := d.open(g)
	if err != nil {
		return err
	}
	defer a.Close()
	defer a.Busy("computing the digest of %d bytes", len(text))()
	made, _, err := ask.Received[api.ComputedDigest](a.ComputeDigestWithBody(ctx, nil, "application/yaml", bytes.NewReader(text)))
	if err != nil {
		return err
	}
	if d.Compare == "" {
		return g.Print(made, []string{"KEY", "DIGEST"}, func(row func(...string)) {
			for _, digest := range everyDigest(&made) {
				row(scheme(digest), digest)
			}
		})
	}
	return d.compare(g, &made)
}

// everyDigest are the digests under every key, the newest first.
func everyDigest(d *api.ComputedDigest) []string {
	out := []string{d.Digest}
	if d.Under == nil {
		return out
	}
	versions := slices.SortedFunc(maps.Keys(*d.Under), func(a, b string) int {
		if len(a) != len(b) { // k10 is newer than k9
			return len(b) - len(a)
		}
		return strings.Compare(b, a)
	})
	for _, version := range versions {
		if digest := (*d.Under)[version]; digest != d.Digest {
			out = append(out, digest)
		}
	}
	return out
}

// scheme is a digest's scheme and key version.
func scheme(digest string) string {
	at := strings.LastIndex(digest, ":")
	return digest[:max(at, 0)]
}

// compare tells the same from another text, and both from digests that cannot be compared:
// those of another scheme, or of a key that the gateway does not have.
func (d *Digest) compare(g *cli.Globals, made *api.ComputedDigest) error {
	all := everyDigest(made)
	i := slices.IndexFunc(all, func(digest string) bool { return scheme(digest) == scheme(d.Compare) })
	if i < 0 {
		return fmt.Errorf("this cannot be compared: the gateway has no key for %s; it has %s", scheme(d.Compare), strings.Join(schemes(all), ", "))
	}
	same := all[i] == d.Compare
	if g.Output != "table" {
		if err := g.Print(comparison{*made, d.Compare, same}, nil, nil); err != nil {
			return err
		}
	} else if same {
		fmt.Fprintf(g.Out, "%s is the digest of %s\n", d.Compare, d.name())
	}
	if same {
		return nil
	}
	return cli.Changed(fmt.Errorf("%s has another digest: %s", d.name(), all[i]))
}

func schemes(digests []string) []string {
	var out []string
	for _, digest := range digests {
		out = append(out, scheme(digest))
	}
	return out
}

// name is what was read, for a sentence.
func (d *Digest) name() string {
	if d.File == "-" {
		return "what was read from standard input"
	}
	return d.File
}

// DigestKeys are the commands about the keys of digests.
type DigestKeys struct {
	List digestKeysListCmd `cmd:"" help:"List the versions of the digest keys and since when each is used." aliases:"ls"`
	Add  digestKeysAddCmd  `cmd:"" help:"Add a digest key. The older ones stay for what was digested with them."`
}

type digestKeysListCmd struct{ clientFlags }

func (k *digestKeysListCmd) Run(ctx context.Context, g *cli.Globals) error {
	a, err := k.open(g)
	if err != nil {
		return err
	}
	defer a.Close()
	page, _, err := ask.Received[api.DigestKeyList](a.ListDigestKeys(ctx))
	if err != nil {
		return err
	}
	err = g.Print(page.Items, []string{"VERSION", "USED FROM"}, func(row func(...string)) {
		for _, one := range page.Items {
			row(one.Version, cli.Stamp(one.UsedFrom))
		}
	})
	g.More(len(page.Items), "this gateway's digests have no keys (digest.scheme)", "")
	return err
}

type digestKeysAddCmd struct{ clientFlags }

func (k *digestKeysAddCmd) Run(ctx context.Context, g *cli.Globals) error {
	a, err := k.open(g)
	if err != nil {
		return err
	}
	defer a.Close()
	defer a.Busy("adding a digest key")()
	added, said, err := ask.Received[api.AddedDigestKey](a.AddDigestKey(ctx, nil, api.Nothing{}))
	if err != nil {
		return err
	}
	return g.Done(added, "digest key %s is used for new digests from %s (decision %s)\n", added.Version, cli.Stamp(&added.UsedFrom), said.Decision)
}
