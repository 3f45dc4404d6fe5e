package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"bronzeward/fixtures/talosd"
	"bronzeward/fixtures/world"
)

// canary is planted as secret values in the configuration and looked for afterwards.
const canary = "canary7f3a9c21d4e85b60"

// s1 is first sight: machines become known, are observed and pinned, and nothing on them
// changes.
func s1(ctx context.Context, s *stage) (err error) {
	w, err := s.world(ctx, world.Config{})
	if err != nil {
		return err
	}
	defer func() { err = s.leave(ctx, w, err) }()
	for _, step := range []func(context.Context, *stage, *world.World) error{
		s1Observed, s1Nothing, s1Swapped, s1ControlPlane, s1Maintenance, s1Secrets,
	} {
		if err := step(ctx, s, w); err != nil {
			return err
		}
	}
	return nil
}

// s1Observed reads identity and digests.
func s1Observed(ctx context.Context, s *stage, w *world.World) error {
	if _, err := w.Bronzeward(ctx, "olga", "machines", "observe", "worker-1", "worker-2", "controlplane-1"); err != nil {
		return err
	}
	out, err := w.Bronzeward(ctx, "vera", "machines", "show", "worker-1")
	if err != nil {
		return err
	}
	id := w.Nodes["worker-1"].Identity()
	for _, must := range []string{id.NodeID, id.ClusterID, id.UUID, "hmac-sha256:k1:", "v1.13.6"} {
		if !strings.Contains(out, must) {
			return fmt.Errorf("machines show does not name %q:\n%s", must, out)
		}
	}
	s.did("three machines observed and pinned: node id, cluster id, SMBIOS UUID and configuration digests are recorded")
	return nil
}

// s1Nothing asks the workers' own logs: nothing that changes anything was called.
func s1Nothing(_ context.Context, s *stage, w *world.World) error {
	reads := map[string]bool{
		"/machine.MachineService/Version": true, "/cosi.resource.State/Get": true,
		"/cosi.resource.State/List": true, "/cosi.resource.State/Watch": true,
	}
	calls := 0
	for name, node := range w.Nodes {
		for _, c := range node.Log().Calls() {
			calls++
			if !reads[c.Method] {
				return fmt.Errorf("%s was called %s", name, c.Method)
			}
			for key := range c.Metadata {
				switch key {
				case "talos-role", "bronzeward-decision", ":authority", "content-type", "user-agent", "grpc-accept-encoding":
				default:
					return fmt.Errorf("%s was sent metadata %q, which nobody there needs", name, key)
				}
			}
		}
	}
	s.did("the nodes' own logs: %d calls, all of them reads, with no metadata of a caller's", calls)
	return nil
}

// s1Swapped puts another node behind an address: refused until an approver pins it again.
func s1Swapped(ctx context.Context, s *stage, w *world.World) error {
	if err := writeExamples(ctx, w); err != nil {
		return err
	}
	node := w.Nodes["worker-1"]
	id := node.Identity()
	other := talosd.Identity{NodeID: "replacement", ClusterID: id.ClusterID, UUID: id.UUID}
	if err := node.SwapIdentity(other); err != nil {
		return err
	}
	out, err := w.Talosctl(ctx, "olga", "-n", "worker-1", "apply-config", "--mode=no-reboot", "-f", w.Path("examples", "label.yaml"))
	if err == nil {
		return fmt.Errorf("an apply to a replaced node went through:\n%s", out)
	}
	if n := len(node.Log().Applies()); n != 0 {
		return fmt.Errorf("a replaced node was sent %d applies", n)
	}
	s.did("control: a replaced node is refused: %s", firstLine(out))
	if out, err := w.Bronzeward(ctx, "olga", "machines", "pin", "worker-1"); err == nil {
		return fmt.Errorf("an operator pinned another identity without saying so:\n%s", out)
	}
	if out, err := w.Bronzeward(ctx, "olga", "machines", "pin", "--replace", "worker-1"); err == nil {
		return fmt.Errorf("an operator pinned a replaced node:\n%s", out)
	}
	s.did("control: an operator may not pin a replaced node")
	if _, err := w.Bronzeward(ctx, "ada", "machines", "pin", "--replace", "worker-1"); err != nil {
		return err
	}
	if out, err := w.Talosctl(ctx, "olga", "-n", "worker-1", "apply-config", "--mode=no-reboot", "-f", w.Path("examples", "label.yaml")); err != nil {
		return fmt.Errorf("after the re-pin: %w\n%s", err, out)
	}
	s.did("an approver pins the replaced node, and it is applied to again")
	return nil
}

// s1ControlPlane offers a worker's configuration to a control plane.
func s1ControlPlane(ctx context.Context, s *stage, w *world.World) error {
	out, err := w.Talosctl(ctx, "olga", "-n", "controlplane-1", "apply-config", "--mode=no-reboot", "-f", w.Path("examples", "label.yaml"))
	if err == nil {
		return fmt.Errorf("a worker's configuration went to a control plane:\n%s", out)
	}
	if n := len(w.Nodes["controlplane-1"].Log().Applies()); n != 0 {
		return fmt.Errorf("the control plane was sent %d applies", n)
	}
	s.did("control: worker bytes offered to a control plane are refused: %s", firstLine(out))
	return nil
}

// s1Maintenance puts a worker into maintenance.
func s1Maintenance(ctx context.Context, s *stage, w *world.World) error {
	node := w.Nodes["worker-2"]
	if err := node.SetStage("maintenance"); err != nil {
		return err
	}
	out, err := w.Talosctl(ctx, "olga", "-n", "worker-2", "apply-config", "--mode=no-reboot", "-f", w.Path("examples", "label.yaml"))
	if err == nil {
		return fmt.Errorf("an apply in maintenance went through:\n%s", out)
	}
	if n := len(node.Log().Applies()); n != 0 {
		return fmt.Errorf("a node in maintenance was sent %d applies", n)
	}
	s.did("control: a machine in maintenance is refused: %s", firstLine(out))
	return node.SetStage("running")
}

// s1Secrets plants a canary as secret values and looks for it, and for the real secrets
// of the configuration, wherever the product keeps or says something.
func s1Secrets(ctx context.Context, s *stage, w *world.World) error {
	active, _ := w.Nodes["worker-1"].Active()
	planted := strings.Replace(string(active), "\nmachine:\n", "\nmachine:\n    env:\n        HTTP_PROXY: http://user:"+canary+"@proxy.example\n    kubelet:\n        extraArgs:\n            token: "+canary+"\n", 1)
	planted = strings.ReplaceAll(planted, "    kubelet:\n        extraArgs:\n            token: "+canary+"\n    kubelet:\n", "    kubelet:\n        extraArgs:\n            token: "+canary+"\n")
	file := w.Path("examples", "canary.yaml")
	if err := os.WriteFile(file, []byte(planted), 0o600); err != nil {
		return err
	}
	var said strings.Builder
	for _, args := range [][]string{
		{"-n", "worker-1", "apply-config", "--mode=no-reboot", "--dry-run", "-f", file},
		{"-n", "worker-1", "apply-config", "--mode=no-reboot", "-f", file},
	} {
		out, _ := w.Talosctl(ctx, "olga", args...) // whether it is refused does not matter here
		said.WriteString(out)
	}
	secrets := secretsOf(string(active))
	secrets = append(secrets, canary)
	g := w.Gateways["gateway-1"]
	out, err := w.Bronzeward(ctx, "", "decisions", "list", "-o", "json")
	if err != nil {
		return err
	}
	said.WriteString(out)
	metrics, err := g.Metrics(ctx)
	if err != nil {
		return err
	}
	said.WriteString(metrics)
	said.WriteString(g.Log())
	if err := w.Gateways["gateway-1"].Stop(); err != nil {
		return err
	}
	if found := findSecrets([]byte(said.String()), secrets); len(found) > 0 {
		return fmt.Errorf("answers, logs, metrics or the book hold secrets: %v", found)
	}
	s.did("no secret in answers, log, metrics or the book (%d values, in plain, base64 and hex)", len(secrets))
	scanned, err := scanFolder(w.Path("postgres"), secrets)
	if err != nil {
		return err
	}
	s.did("no secret in the database's files, write-ahead log included (%d MiB read)", scanned>>20)
	// The scan must be able to find something.
	trap := w.Path("postgres", "data", "trap")
	if err := os.WriteFile(trap, []byte("x"+base64.StdEncoding.EncodeToString([]byte(canary))+"x"), 0o600); err != nil {
		return err
	}
	if _, err := scanFolder(w.Path("postgres"), secrets); err == nil {
		return errors.New("the scan does not find a canary that was planted in the data folder")
	}
	s.did("control: a planted canary is found by the scan")
	return os.Remove(trap)
}

// secretsOf are the values of keys that are secret in a worker's configuration.
func secretsOf(config string) []string {
	var out []string
	for line := range strings.Lines(config) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		value = strings.Trim(strings.TrimSpace(value), `"`)
		if (key == "token" || key == "secret") && len(value) > 10 {
			out = append(out, value)
		}
	}
	return out
}

func findSecrets(haystack []byte, secrets []string) []string {
	var found []string
	for _, secret := range secrets {
		for _, form := range []string{secret, base64.StdEncoding.EncodeToString([]byte(secret)), hex.EncodeToString([]byte(secret))} {
			// The last character of base64 depends on what follows.
			if bytes.Contains(haystack, []byte(strings.TrimRight(form, "=")[:len(strings.TrimRight(form, "="))-1])) {
				found = append(found, secret[:4]+"…")
				break
			}
		}
	}
	return found
}

func scanFolder(dir string, secrets []string) (int64, error) {
	var read int64
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !d.Type().IsRegular() {
			return err
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		read += int64(len(raw))
		if found := findSecrets(raw, secrets); len(found) > 0 {
			return fmt.Errorf("%s holds secrets: %v", path, found)
		}
		return nil
	})
	return read, err
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}
