package vault

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/openbao/openbao/api/v2"
)

// State is how a part of OpenBao stands.
type State string

// The states of a part. Only the first asks for nothing; the last cannot be looked at from here.
const (
	StateGood    State = "good"
	StateMissing State = "missing"
	StateDiffers State = "differs"
	StateWrong   State = "wrong"
	StateUnknown State = "unknown"
)

// Step is one part of what Bronzeward needs of OpenBao: how it stands, and how it is put right.
type Step struct {
	// What is the part, such as "Transit key bronzeward-seal".
	What string
	// State is how it stands. StateWrong is what Do does not mend: Detail says what a person must do.
	State State
	// Detail is one sentence; empty when the state says it all.
	Detail string

	do func(context.Context) error
}

// Do puts it right; nothing happens to what is good. The error is an *Error.
func (s Step) Do(ctx context.Context) error {
	switch {
	case s.State == StateGood:
		return nil
	case s.State == StateWrong || s.do == nil:
		return refused("setting up OpenBao", KindMalformed, nil, "%s: %s", s.What, s.Detail)
	}
	return s.do(ctx)
}

// SetupConfig is what Plan plans for.
type SetupConfig struct {
	// Policies are HCL by the name they get, written for the default mounts.
	Policies map[string]string
	// GatewayPolicy is the one of the gateway's login.
	GatewayPolicy string
	// AppRole is how the gateway logs in, when it does so by AppRole; null else.
	AppRole *AppRole
	// FirstDigestKey is the number of the first digest key, when there is none yet; 0 means 1.
	FirstDigestKey int
}

// GatewayRole is the AppRole that setup makes.
const GatewayRole = "bronzeward-gateway"

// OpenWithToken is a client with an operator's token, for Plan, PutCredential, EnsureAuthority
// and DropPrevious. It does nothing in the background; Close lets go of its connections and
// leaves the token alone. source is where the token came from, for errors.
func OpenWithToken(cfg Config, token, source string) (*Client, error) {
	cfg.Auth = AppRole{} // never used: the token is at hand
	c, err := newClient(cfg)
	if err != nil {
		return nil, err
	}
	c.auth = operators{cmp.Or(source, "the token given")}
	if c.api, err = c.open(token); err != nil {
		return nil, err
	}
	return c, nil
}

// operators stands where a token is given and cannot be had anew.
type operators struct{ source string }

func (o operators) logIn(context.Context, opener) (*api.Secret, error) {
	return nil, refused(loggingIn, KindForbidden, nil, "OpenBao does not know your token, or it has ended (%s): bao login, or name another", o.source)
}
func (operators) revokes() bool { return false }

// String names the way.
func (operators) String() string { return "an operator's token" }

// Plan looks at everything Bronzeward needs, in the order in which it can be made, and changes
// nothing. A step whose ground is missing is missing too.
func Plan(ctx context.Context, c *Client, cfg SetupConfig) ([]Step, error) {
	var steps []Step
	for _, look := range []func(context.Context, *Client, SetupConfig) ([]Step, error){
		mountSteps, keySteps, policySteps, appRoleSteps, contentSteps,
	} {
		more, err := look(ctx, c, cfg)
		if err != nil {
			return nil, err
		}
		for i := range more {
			if more[i].State == StateMissing && more[i].Detail == "" {
				more[i].Detail = "setup makes it"
			}
		}
		steps = append(steps, more...)
	}
	return steps, nil
}

const planning = "looking at OpenBao"

func mountSteps(ctx context.Context, c *Client, _ SetupConfig) ([]Step, error) {
	var mounts map[string]*api.MountOutput
	err := c.ask(ctx, planning, func(ctx context.Context, client *api.Client) (err error) {
		mounts, err = client.Sys().ListMountsWithContext(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	var steps []Step
	for _, want := range []struct{ path, kind, version string }{{c.kv, "kv", "2"}, {c.transit, "transit", ""}} {
		step := Step{What: fmt.Sprintf("mount %s (%s)", want.path, strings.TrimSpace(want.kind+" "+want.version)), State: StateGood}
		there, ok := mounts[strings.TrimSuffix(want.path, "/")+"/"]
		switch {
		case !ok:
			input := &api.MountInput{Type: want.kind}
			if want.version != "" {
				input.Options = map[string]string{"version": want.version}
			}
			step.State, step.do = StateMissing, func(ctx context.Context) error {
				return c.ask(ctx, "mounting "+want.path, func(ctx context.Context, client *api.Client) error {
					return client.Sys().MountWithContext(ctx, want.path, input)
				})
			}
		case there.Type != want.kind:
			step.State, step.Detail = StateWrong, fmt.Sprintf("something of type %s is mounted there; name another mount in the configuration", there.Type)
		case there.Options["version"] != want.version:
			step.State, step.Detail = StateWrong, "it is version 1; bao kv enable-versioning "+want.path
		}
		steps = append(steps, step)
	}
	return steps, nil
}

// keyTypes are the Transit keys and what they are made as.
func keyTypes() [][2]string {
	return [][2]string{{SealKey, "aes256-gcm96"}, {DigestKey, "aes256-gcm96"}, {CheckpointKey, "ed25519"}, {CAKey, "ecdsa-p256"}}
}

func keySteps(ctx context.Context, c *Client, _ SetupConfig) ([]Step, error) {
	var steps []Step
	for _, want := range keyTypes() {
		name, kind := want[0], want[1]
		step := Step{What: "Transit key " + name + " (" + kind + ")", State: StateGood}
		info, err := newTransitKey(c, name).info(ctx, planning)
		switch {
		case kindOf(err) == KindKeyMissing:
			lost, err := keyOfOld(ctx, c, name)
			if err != nil {
				return nil, err
			}
			step.State, step.do = StateMissing, func(ctx context.Context) error {
				_, err := c.write(ctx, "making the key "+name, c.transit+"/keys/"+name, map[string]any{"type": kind, "exportable": false, "allow_plaintext_backup": false})
				return err
			}
			if name == SealKey {
				step.Detail = "setup makes it; changes that wait under one that was deleted stay lost: propose them again"
			}
			if lost != "" {
				step.State, step.Detail = StateWrong, lost
			}
		case err != nil:
			return nil, err
		case info.kind != kind:
			step.State, step.Detail = StateWrong, "it is of type "+info.kind+", and cannot be turned into "+kind
		case info.exportable || info.plaintext:
			step.State, step.Detail = StateWrong, "it can leave OpenBao (exportable or allow_plaintext_backup), which cannot be taken back"
		case info.deletable:
			step.State, step.Detail = StateDiffers, "it may be deleted"
			step.do = func(ctx context.Context) error {
				_, err := c.write(ctx, "protecting the key "+name, c.transit+"/keys/"+name+"/config", map[string]any{"deletion_allowed": false})
				return err
			}
		}
		steps = append(steps, step)
	}
	return steps, nil
}

// keyOfOld says why a key that is missing must not be made anew: something in KV, deleted or not,
// is of the one that was. Who has sealed changes waiting finds out when they are opened.
func keyOfOld(ctx context.Context, c *Client, name string) (string, error) {
	path, sentence := "", ""
	switch name {
	case DigestKey:
		path, sentence = PathDigestKeys, "the digest keys in KV are wrapped by it: restore OpenBao from a backup that has the key"
	case CAKey:
		path, sentence = PathCA, "the authority in KV is of it: restore OpenBao, or remove the authority (bao kv metadata delete) and run setup again"
	default:
		return "", nil
	}
	was, err := c.everWas(ctx, planning, path)
	if err != nil || !was {
		return "", err
	}
	return sentence, nil
}

// localPolicy is a policy for the client's mounts.
func (c *Client) localPolicy(hcl string) string {
	return strings.NewReplacer(`path "`+DefaultKVMount+`/`, `path "`+c.kv+`/`, `path "`+DefaultTransitMount+`/`, `path "`+c.transit+`/`).Replace(hcl)
}
