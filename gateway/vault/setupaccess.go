package vault

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/openbao/openbao/api/v2"
)

func policySteps(ctx context.Context, c *Client, cfg SetupConfig) ([]Step, error) {
	var steps []Step
	for _, name := range slices.Sorted(maps.Keys(cfg.Policies)) {
		want := c.localPolicy(cfg.Policies[name])
		step := Step{What: "policy " + name, State: StateGood}
		var there string
		err := c.ask(ctx, planning, func(ctx context.Context, client *api.Client) (err error) {
			there, err = client.Sys().GetPolicyWithContext(ctx, name)
			return err
		})
		switch {
		case err != nil && kindOf(err) != KindMissing:
			return nil, err
		case there == "":
			step.State = StateMissing
		case strings.TrimSpace(there) != strings.TrimSpace(want):
			step.State, step.Detail = StateDiffers, "it is not the one this version ships"
		}
		step.do = func(ctx context.Context) error {
			return c.ask(ctx, "writing the policy "+name, func(ctx context.Context, client *api.Client) error {
				return client.Sys().PutPolicyWithContext(ctx, name, want)
			})
		}
		steps = append(steps, step)
	}
	return steps, nil
}

// appRoleSettings are those of the gateway's role. A token lives an hour and is renewed for a
// day; then the gateway logs in again.
func appRoleSettings(policy string) map[string]any {
	return map[string]any{"token_policies": policy, "token_ttl": "1h", "token_max_ttl": "24h", "token_no_default_policy": true, "bind_secret_id": true}
}

func appRoleSteps(ctx context.Context, c *Client, cfg SetupConfig) ([]Step, error) {
	if cfg.AppRole == nil {
		return nil, nil
	}
	mount := cmp.Or(cfg.AppRole.Mount, "approle")
	method, err := methodStep(ctx, c, mount)
	if err != nil {
		return nil, err
	}
	role := Step{What: "AppRole " + GatewayRole, State: StateGood, do: func(ctx context.Context) error {
		_, err := c.write(ctx, "writing the AppRole "+GatewayRole, "auth/"+mount+"/role/"+GatewayRole, appRoleSettings(cfg.GatewayPolicy))
		return err
	}}
	there, err := c.read(ctx, planning, "auth/"+mount+"/role/"+GatewayRole)
	switch {
	case method.State == StateMissing, kindOf(err) == KindMissing:
		role.State = StateMissing
	case err != nil:
		return nil, err
	case fmt.Sprint(there["token_policies"]) != fmt.Sprint([]any{cfg.GatewayPolicy}):
		role.State, role.Detail = StateDiffers, fmt.Sprintf("its policies are %v, and not %s alone", there["token_policies"], cfg.GatewayPolicy)
	case there["token_no_default_policy"] != true:
		role.State, role.Detail = StateDiffers, "it gets the policy default besides"
	case there["bind_secret_id"] != true:
		role.State, role.Detail = StateDiffers, "it lets in without a secret id"
	}
	steps := []Step{method, role}
	for _, file := range []struct {
		what, path string
		fetch      func(context.Context) (string, error)
	}{
		{"role id", cfg.AppRole.RoleIDFile, func(ctx context.Context) (string, error) {
			data, err := c.read(ctx, "reading the role id", "auth/"+mount+"/role/"+GatewayRole+"/role-id")
			id, _ := data["role_id"].(string)
			return id, err
		}},
		{"secret id", cfg.AppRole.SecretIDFile, func(ctx context.Context) (string, error) {
			data, err := c.write(ctx, "making a secret id", "auth/"+mount+"/role/"+GatewayRole+"/secret-id", nil)
			id, _ := data["secret_id"].(string)
			return id, err
		}},
	} {
		step := Step{What: "file with the " + file.what + ", " + file.path, State: StateGood, do: func(ctx context.Context) error {
			id, err := file.fetch(ctx)
			if err != nil {
				return err
			}
			return writeSecretFile(file.path, id)
		}}
		switch info, err := os.Stat(file.path); {
		case err != nil:
			step.State = StateMissing
		case file.path == cfg.AppRole.SecretIDFile && info.Mode().Perm()&othersMay != 0:
			step.State, step.Detail = StateWrong, fmt.Sprintf("others may read it (mode %04o): remove it and run bronzeward openbao setup for a new one, or chmod 600 it where nobody has", info.Mode().Perm())
		}
		steps = append(steps, step)
	}
	return steps, nil
}

func methodStep(ctx context.Context, c *Client, mount string) (Step, error) {
	step := Step{What: "auth method " + mount + " (approle)", State: StateGood}
	var methods map[string]*api.AuthMount
	err := c.ask(ctx, planning, func(ctx context.Context, client *api.Client) (err error) {
		methods, err = client.Sys().ListAuthWithContext(ctx)
		return err
	})
	if err != nil {
		return step, err
	}
	there, ok := methods[strings.TrimSuffix(mount, "/")+"/"]
	switch {
	case !ok:
		step.State, step.do = StateMissing, func(ctx context.Context) error {
			return c.ask(ctx, "enabling "+mount, func(ctx context.Context, client *api.Client) error {
				if err := client.Sys().EnableAuthWithOptionsWithContext(ctx, mount, &api.EnableAuthOptions{Type: "approle"}); err != nil {
					return err
				}
				// Who knows the role id alone could lock the gateway out with wrong secret ids, which are
				// random and not to be guessed. Enabling takes no such setting. A process that ends here
				// leaves a method that locks out, and the plan's detail says so.
				disable := true
				return client.Sys().TuneMountWithContext(ctx, "auth/"+mount, api.MountConfigInput{UserLockoutConfig: &api.UserLockoutConfigInput{DisableLockout: &disable}})
			})
		}
	case there.Type != "approle":
		step.State, step.Detail = StateWrong, "it is of type "+there.Type+"; name another mount in the configuration"
	default:
		// The library reads this setting under another name than OpenBao writes it.
		tuned, err := c.read(ctx, planning, "sys/auth/"+strings.TrimSuffix(mount, "/")+"/tune")
		if err != nil {
			return step, err
		}
		if tuned["user_lockout_disable"] != true {
			step.Detail = "wrong secret ids lock the gateway out of it: bao auth tune -user-lockout-disable=true " + mount
		}
	}
	return step, nil
}

// writeSecretFile writes a file that nobody else can read, whole or not at all, and over nothing.
func writeSecretFile(path, text string) error {
	if text == "" {
		return refused("writing "+path, KindMalformed, nil, "OpenBao gave nothing to write")
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".bronzeward-")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	if _, err = file.WriteString(text + "\n"); err == nil {
		err = file.Sync()
	}
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	return os.Link(file.Name(), path)
}
