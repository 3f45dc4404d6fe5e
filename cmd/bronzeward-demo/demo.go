package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"bronzeward/fixtures/talosctlbin"
	"bronzeward/fixtures/world"
)

// startWorld starts the demo's world with two replicas of the gateway.
func startWorld(ctx context.Context) (*world.World, string, error) {
	path, err := binary()
	if err != nil {
		return nil, "", err
	}
	fmt.Println("starting the world in", demoDir())
	talosctl, err := talosctlbin.Path(ctx, os.Stdout)
	if err != nil {
		return nil, "", err
	}
	w, err := world.Start(ctx, world.Config{Dir: demoDir(), Binary: path, Progress: os.Stdout, Quorum: 1, Labels: []string{"env=production"}})
	if err != nil {
		return nil, "", err
	}
	for _, replica := range []string{"gateway-1", "gateway-2"} {
		if _, err := w.StartGateway(ctx, replica); err != nil {
			_ = w.Close()
			return nil, "", err
		}
	}
	if err := writeExamples(ctx, w); err != nil {
		_ = w.Close()
		return nil, "", err
	}
	return w, talosctl, nil
}

// demo starts everything, says where it is and what to try, and runs until ctx ends.
func demo(ctx context.Context) error {
	w, talosctl, err := startWorld(ctx)
	if err != nil {
		return err
	}
	if err := errors.Join(linkCommands(w.Path("bin"), talosctl, w.Binary), writeAs(w), writeHome(w)); err != nil {
		return errors.Join(err, w.Close())
	}
	g, second := w.Gateways["gateway-1"], w.Gateways["gateway-2"]
	fmt.Printf(`
Bronzeward is up.

  gateway        %s for talosctl, %s for bronzeward (API, health, metrics); a second replica beside it
  workers        worker-1, worker-2; control plane controlplane-1
  people         olga, otto (operators), vera (viewer), ada, abel (approvers), boris (operator and approver),
                 sven, selma (policy-admins), audrey (auditor), rhea (recovery-admin), bot-ci (automation), mallory (nobody)
  credentials    %s/NAME for talosctl; %s/NAME.crt and .key for bronzeward
  configuration  %s
  policy         %s: a copy of what is live; edit it, then: as sven bronzeward policy activate %s
  gateway's log  %s

In another terminal:

  export PATH=%s:$PATH     # talosctl, bronzeward, "as NAME COMMAND", which runs a command as one of these
                           # people, and "home NAME COMMAND", which has nothing but what their login wrote;
                           # to the gateway the two are different people, of different issuers

and try, with the id and the digest that are printed in the place of chg_… and hmac-…:

`, g.Endpoint, w.API(), w.Path("talosconfig"), w.Path("pki"), w.ConfigFile(), w.PolicyDir(), w.PolicyDir(), w.Path("gateway-1.log"), w.Path("bin"))
	for i, s := range steps(w) {
		fmt.Printf("  %d. %s\n     %s\n", i+1, s.says, s.shown(seen{}))
	}
	fmt.Println("\nCtrl-C stops everything.")
	select {
	case <-ctx.Done():
	case <-g.Done():
		return fmt.Errorf("the gateway ended; see %s", w.Path("gateway-1.log"))
	case <-second.Done():
		return fmt.Errorf("the second replica ended; see %s", w.Path("gateway-2.log"))
	}
	fmt.Println("\nstopping …")
	began := time.Now()
	err = w.Close()
	fmt.Println("stopped after", time.Since(began).Round(time.Millisecond))
	return err
}

// writeAs writes the command "as NAME COMMAND", which gives a command somebody's credentials.
func writeAs(w *world.World) error {
	text := asScript(w.Path("pki"), w.Path("talosconfig"), w.API(), w.ConfigFile())
	return os.WriteFile(w.Path("bin", "as"), []byte(text), 0o755)
}

// asScript is that command. A login under it would write into the home of whoever tries the
// demo, and so it takes none.
func asScript(pki, talosconfig, api, config string) string {
	return fmt.Sprintf(`#!/bin/sh
# as NAME COMMAND...: run a command as one of the demo's people.
[ $# -ge 2 ] || { echo "usage: as NAME COMMAND..." >&2; exit 2; }
[ -e '%[1]s/'"$1.crt" ] || { echo "as: nobody here is called $1" >&2; exit 2; }
case "${2##*/} $3" in
"bronzeward login" | "bronzeward logout")
	echo "as: $1 has a credential here and needs no $3, which would write into your own home: home $1 bronzeward $3" >&2
	exit 2
	;;
esac
export TALOSCONFIG='%[2]s/'"$1" BRONZEWARD_CERTIFICATE='%[1]s/'"$1.crt" BRONZEWARD_KEY='%[1]s/'"$1.key"
export BRONZEWARD_SERVER='%[3]s' BRONZEWARD_SERVER_CA='%[1]s/server-ca.crt'
# The configuration names database logins: the auditor's, and the one that the first law is activated with.
case "$1" in
audrey | sven) export BRONZEWARD_CONFIG='%[4]s' ;;
esac
shift
exec "$@"
`, pki, talosconfig, api, config)
}

// writeHome writes the command "home NAME COMMAND", which gives a command nothing but somebody's
// home, with what their logins have written there.
func writeHome(w *world.World) error {
	text := fmt.Sprintf(`#!/bin/sh
# home NAME COMMAND...: run a command with the home folder of one of the demo's people.
[ $# -ge 2 ] || { echo "usage: home NAME COMMAND..." >&2; exit 2; }
[ -e '%[1]s/'"$1.crt" ] || { echo "home: nobody here is called $1" >&2; exit 2; }
export HOME='%[2]s/'"$1"
export XDG_CONFIG_HOME="$HOME/.config" XDG_STATE_HOME="$HOME/.local/state"
unset TALOSCONFIG TALOS_HOME BRONZEWARD_SERVER BRONZEWARD_SERVER_CA BRONZEWARD_CERTIFICATE BRONZEWARD_KEY BRONZEWARD_TOKEN BRONZEWARD_TOKEN_FILE
mkdir -p "$HOME"
shift
exec "$@"
`, w.Path("pki"), w.Path("home"))
	return os.WriteFile(w.Path("bin", "home"), []byte(text), 0o755)
}

// linkCommands puts talosctl and bronzeward under their own names into one folder.
func linkCommands(dir, talosctl, bronzeward string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	// talosctl may have been found through the link of an earlier start.
	talosctl, err := filepath.EvalSymlinks(talosctl)
	if err != nil {
		return err
	}
	for name, target := range map[string]string{"talosctl": talosctl, "bronzeward": bronzeward} {
		path := filepath.Join(dir, name)
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if err := os.Symlink(target, path); err != nil {
			return err
		}
	}
	return nil
}
