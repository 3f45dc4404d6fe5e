package bao

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"

	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/cmd/bronzeward/config"
	"bronzeward/cmd/bronzeward/house"
	"bronzeward/gateway/vault"
)

// gatewayAccess looks at what the gateway's own login may do. A login whose files lie on the
// gateway's host alone cannot be looked at from elsewhere, and is said to be unknown.
func gatewayAccess(ctx context.Context, cfg *config.Config) []openBaoPart {
	const part = "the gateway's login"
	differs := func(err error) []openBaoPart {
		return []openBaoPart{{part, vault.StateDiffers, err.Error()}}
	}
	if file := cfg.OpenBaoLoginFile(); file != "" {
		if _, err := os.Stat(file); err != nil {
			return []openBaoPart{{part, vault.StateUnknown, file + " is not here; run --check where the gateway runs"}}
		}
	}
	conf, err := cfg.VaultConfig(slog.New(slog.DiscardHandler))
	if err != nil {
		return differs(err)
	}
	gateway, err := vault.Open(ctx, conf)
	if err != nil {
		return []openBaoPart{{part, vault.StateWrong, err.Error() + cfg.OpenBaoLoginHint(err)}}
	}
	defer gateway.Close()
	all, err := vault.CheckAccess(ctx, gateway)
	if err != nil {
		return differs(err)
	}
	var out []openBaoPart
	for _, a := range all {
		var wrong []string
		if a.TooWide() {
			wrong = append(wrong, "too wide")
		}
		if a.Missing() {
			wrong = append(wrong, "missing")
		}
		if wrong != nil {
			out = append(out, openBaoPart{part + " at " + a.Path, vault.StateDiffers, fmt.Sprintf("%s: it has %s and needs %s", strings.Join(wrong, ", and "), named(a.Has), named(a.Want))})
		}
	}
	if len(out) == 0 {
		out = append(out, openBaoPart{part, vault.StateGood, fmt.Sprintf("what it needs and no more, at %d paths", len(all))})
	}
	return out
}

// heldParts are what others than setup put into OpenBao: the Talos credentials and the anchor.
// Nothing is looked at before the mounts and keys are there.
func heldParts(ctx context.Context, cfg *config.Config, client *vault.Client, steps []vault.Step) ([]openBaoPart, error) {
	if slices.ContainsFunc(steps, func(s vault.Step) bool { return s.State == vault.StateMissing || s.State == vault.StateWrong }) {
		return nil, nil
	}
	people, err := cfg.ReadAllCertificates(cfg.Identity.CertificateAuthorities)
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("reading identity.certificate_authorities: %w", err))
	}
	kept, err := vault.PeoplesAuthorities(ctx, client)
	if err != nil {
		return nil, err
	}
	held, err := vault.Held(ctx, client, house.ParseCredential, append(people, kept...))
	return statesOf(held), err
}

func named(capabilities []string) string {
	if len(capabilities) == 0 {
		return "nothing"
	}
	return strings.Join(capabilities, ", ")
}

func statesOf(steps []vault.Step) []openBaoPart {
	out := make([]openBaoPart, 0, len(steps))
	for _, s := range steps {
		out = append(out, openBaoPart{s.What, s.State, s.Detail})
	}
	return out
}
