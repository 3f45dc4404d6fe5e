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

// startWorld starts the demo's world with one gateway.
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
	w, err := world.Start(ctx, world.Config{Dir: demoDir(), Binary: path, Progress: os.Stdout})
	if err != nil {
		return nil, "", err
	}
	if _, err := w.StartGateway(ctx, "gateway-1"); err != nil {
		_ = w.Close()
		return nil, "", err
	}
	if err := writeExamples(w); err != nil {
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
	if err := linkCommands(w.Path("bin"), talosctl, w.Binary); err != nil {
		return errors.Join(err, w.Close())
	}
	g := w.Gateways["gateway-1"]
	fmt.Printf(`
Bronzeward is up.

  gateway        %s    (health, metrics: http://%s)
  workers        worker-1, worker-2; control plane controlplane-1
  people         olga, otto (operators), vera (viewer), ada, abel (approvers), boris (operator and approver),
                 sven (policy-admin), audrey (auditor), rhea (recovery-admin), bot-ci (automation), mallory (nobody)
  credentials    %s/NAME for talosctl; %s/NAME.crt and .key for bronzeward
  configuration  %s
  policy         %s: a copy of what is live; edit it, then: bronzeward policy activate
  gateway's log  %s

In another terminal:

  export PATH=%s:$PATH BRONZEWARD_CONFIG=%s
  export BRONZEWARD_CERTIFICATE=%s/sven.crt BRONZEWARD_KEY=%s/sven.key   # who commands that change something run as

and try:

`, g.Endpoint, g.HTTP, w.Path("talosconfig"), w.Path("pki"), w.ConfigFile(), w.PolicyDir(), w.Path("gateway-1.log"),
		w.Path("bin"), w.ConfigFile(), w.Path("pki"), w.Path("pki"))
	for i, s := range steps(w) {
		fmt.Printf("  %d. %s\n     %s\n", i+1, s.says, s.shown(w))
	}
	fmt.Println("\nCtrl-C stops everything.")
	select {
	case <-ctx.Done():
	case <-g.Done():
		return fmt.Errorf("the gateway ended; see %s", w.Path("gateway-1.log"))
	}
	fmt.Println("\nstopping …")
	began := time.Now()
	err = w.Close()
	fmt.Println("stopped after", time.Since(began).Round(time.Millisecond))
	return err
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
