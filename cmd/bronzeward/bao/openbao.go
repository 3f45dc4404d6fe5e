// Package bao is the commands about OpenBao: set it up, look at it, and put what it holds.
package bao

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/cmd/bronzeward/config"
	policies "bronzeward/deploy/openbao"
	"bronzeward/gateway/vault"
)

// Commands is what operators do with OpenBao. All of it uses openbao.address of the
// configuration and an operator's own token.
type Commands struct {
	Setup         openBaoSetupCmd         `cmd:"" help:"Make the mounts, keys and policies that a gateway needs, after showing them."`
	PutCredential openBaoPutCredentialCmd `cmd:"" help:"Put the Talos credential of a cluster; a running gateway takes it up by itself."`
	RotateCA      openBaoRotateCACmd      `cmd:"" name:"rotate-ca" help:"Make a new authority for people's certificates; the present one stays trusted beside it."`
	DropCA        openBaoDropCACmd        `cmd:"" name:"drop-ca" help:"Stop trusting the authority before the current one."`
	CheckpointKey openBaoCheckpointKeyCmd `cmd:"" help:"Print the public keys that verify checkpoints of the book."`
}

// tokenFlags say whose token OpenBao is asked with.
type tokenFlags struct {
	TokenFile string `env:"BAO_TOKEN_FILE" placeholder:"FILE" help:"File with your OpenBao token; BAO_TOKEN holds the token itself, and ~/.vault-token is read last, as bao does."`
}

// operator is a client with the person's own token.
func operator(g *cli.Globals, f tokenFlags) (*config.Config, *vault.Client, error) {
	cfg, err := config.Load(g.ConfigFile)
	if err != nil {
		return nil, nil, err
	}
	conf, err := cfg.VaultConfig(slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, nil, err
	}
	token, source, err := f.token()
	if err != nil {
		return nil, nil, err
	}
	client, err := vault.OpenWithToken(conf, token, source)
	return cfg, client, err
}

// token gives the token and where it came from.
func (f tokenFlags) token() (token, source string, err error) {
	source = "--token-file " + f.TokenFile
	path := f.TokenFile
	if path == "" {
		if token := strings.TrimSpace(os.Getenv("BAO_TOKEN")); token != "" {
			return token, "BAO_TOKEN", nil
		}
		home, err := os.UserHomeDir()
		if err != nil {
			return "", "", cli.Usage(errors.New("no OpenBao token: give --token-file or BAO_TOKEN"))
		}
		path, source = filepath.Join(home, ".vault-token"), "~/.vault-token"
	}
	raw, err := os.ReadFile(path)
	if err != nil && f.TokenFile == "" {
		return "", "", cli.Usage(errors.New("no OpenBao token: give --token-file or BAO_TOKEN, or log in with bao login"))
	}
	if err != nil {
		return "", "", cli.Usage(fmt.Errorf("reading your OpenBao token: %w", err))
	}
	if token := strings.TrimSpace(string(raw)); token != "" {
		return token, source, nil
	}
	return "", "", cli.Usage(fmt.Errorf("reading your OpenBao token: %s is empty", path))
}

const (
	gatewayPolicy  = "bronzeward-gateway"
	operatorPolicy = "bronzeward-operator"
)

type openBaoSetupCmd struct {
	tokenFlags
	Check bool `help:"Change nothing; say what is missing or too wide. Exit code 3 if anything is."`
	Yes   bool `short:"y" help:"Do it without asking."`

	FirstDigestKey int `default:"1" help:"Number of the first digest key, when there is none: above every key that the book's digests name, when OpenBao is set up anew beside it."`
}

// openBaoPart is a step as it is printed.
type openBaoPart struct {
	Part   string      `json:"part"`
	State  vault.State `json:"state"`
	Detail string      `json:"detail,omitempty"`
}

// bad is whether a person should look at it.
func (p openBaoPart) bad() bool { return p.State != vault.StateGood }

// Run shows what is not as it should be, and puts it right when that is wanted.
func (s *openBaoSetupCmd) Run(ctx context.Context, g *cli.Globals) error {
	if s.FirstDigestKey < 1 || s.FirstDigestKey > 1_000_000 {
		return cli.Usage(fmt.Errorf("--first-digest-key: %d is not between 1 and 1000000", s.FirstDigestKey))
	}
	cfg, client, err := operator(g, s.tokenFlags)
	if err != nil {
		return err
	}
	defer client.Close()
	setup := vault.SetupConfig{
		Policies:      map[string]string{gatewayPolicy: policies.Gateway, operatorPolicy: policies.Operator},
		GatewayPolicy: gatewayPolicy, AppRole: cfg.AppRole(), FirstDigestKey: s.FirstDigestKey,
	}
	steps, err := vault.Plan(ctx, client, setup)
	if err != nil {
		return err
	}
	var access []openBaoPart
	if !slices.ContainsFunc(steps, func(s vault.Step) bool { return s.State == vault.StateMissing }) {
		access = gatewayAccess(ctx, cfg)
	}
	held, err := heldParts(ctx, cfg, client, steps)
	if err != nil {
		return err
	}
	parts := slices.Concat(statesOf(steps), access, held)
	if err := g.Print(parts, []string{"PART", "STATE", "DETAIL"}, func(row func(...string)) {
		for _, p := range parts {
			row(p.Part, string(p.State), p.Detail)
		}
	}); err != nil {
		return err
	}
	switch {
	case !slices.ContainsFunc(parts, openBaoPart.bad):
		g.Say("nothing is missing")
		return nil
	case s.Check:
		return cli.ErrChanged
	}
	for _, p := range statesOf(steps) {
		if p.State == vault.StateWrong {
			return fmt.Errorf("%s: %s; nothing was changed", p.Part, p.Detail)
		}
	}
	if !slices.ContainsFunc(statesOf(steps), openBaoPart.bad) {
		return s.concludeOn(g, access)
	}
	if err := g.Sure(ctx, s.Yes, fmt.Sprintf("What is not good is made so in OpenBao at %s.", cfg.OpenBao.Address)); err != nil {
		return err
	}
	if err := s.do(ctx, g, client, setup); err != nil {
		return err
	}
	return s.concludeOn(g, gatewayAccess(ctx, cfg))
}

// concludeOn says how the gateway's login stands when everything is made. What it may too much
// comes from elsewhere than the policies here, so that a person must look.
func (s *openBaoSetupCmd) concludeOn(g *cli.Globals, access []openBaoPart) error {
	for _, p := range access {
		if p.State == vault.StateDiffers || p.State == vault.StateWrong {
			return cli.Changed(fmt.Errorf("everything is made, but %s is not as it should be: %s", p.Part, p.Detail))
		}
		g.Say("%s: %s", p.Part, p.Detail)
	}
	g.Say("done; bronzeward openbao setup --check looks again")
	return nil
}

// do carries out the plan, looked at anew after each step: one that is done may be the ground
// of the next.
func (s *openBaoSetupCmd) do(ctx context.Context, g *cli.Globals, client *vault.Client, setup vault.SetupConfig) error {
	for {
		steps, err := vault.Plan(ctx, client, setup)
		if err != nil {
			return err
		}
		next := slices.IndexFunc(steps, func(s vault.Step) bool { return s.State != vault.StateGood })
		if next < 0 {
			return nil
		}
		if err := steps[next].Do(ctx); err != nil {
			return fmt.Errorf("%s: %w", steps[next].What, err)
		}
		g.Say("%s: done", steps[next].What)
	}
}
