package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/siderolabs/talos/pkg/machinery/api/machine"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"bronzeward/fixtures/idp"
	"bronzeward/fixtures/talosd"
	"bronzeward/fixtures/world"
)

// story is everything that is done with secrets.
func (l *leak) story(ctx context.Context) error {
	if _, err := l.w.StartGateway(ctx, "gateway-1"); err != nil {
		return err
	}
	if err := l.takeSecrets(); err != nil {
		return err
	}
	for _, step := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"the demo", l.demo},
		{"tokens", l.tokens},
		{"configurations that are refused", l.refused},
		{"texts that are no configuration", l.broken},
		{"every kind of document", l.documents},
		{"nodes that quote secrets", l.quoted},
		{"a law that allows, and says all it sees", l.permissive},
		{"changes", l.captured},
		{"machines that drift", l.drifted},
		{"digests and certificates", l.certified},
		{"logins", l.loggedIn},
		{"what operators do with OpenBao", l.operated},
		{"an OpenBao that errs", l.openBaoErrs},
		{"credentials that cannot be used", l.unusable},
		{"questions", l.questions},
		{"a gateway that dies", l.dies},
	} {
		began := time.Now()
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
		fmt.Printf("  %-42s %s\n", step.what, time.Since(began).Round(10*time.Millisecond))
	}
	return l.canaries.Err()
}

// talosctl runs it and keeps what it printed, whatever became of it.
func (l *leak) talosctl(ctx context.Context, person string, args ...string) (string, error) {
	out, err := l.w.Talosctl(ctx, person, args...)
	return out, errors.Join(ctx.Err(), l.tell(inTalosctl, strings.Join(args, " "), saidAndEnded(out, err)))
}

// command runs bronzeward and keeps what it printed, whatever became of it.
func (l *leak) command(ctx context.Context, person string, args ...string) (string, error) {
	out, err := l.w.Bronzeward(ctx, person, args...)
	return out, errors.Join(ctx.Err(), l.tell(inCommand, strings.Join(args, " "), saidAndEnded(out, err)))
}

// saidAndEnded is what a command printed, and how it ended; what it was given is not in it.
func saidAndEnded(out string, err error) string {
	var failed *world.CommandError
	if errors.As(err, &failed) {
		err = failed.Err
	}
	return fmt.Sprint(out, "\n", err)
}

// apply applies a text to a worker for real and as a dry run, and gives what the real one said.
func (l *leak) apply(ctx context.Context, text []byte) (string, error) {
	path, err := l.send(text)
	if err != nil {
		return "", err
	}
	if _, err := l.talosctl(ctx, "olga", "-n", "worker-1", "apply-config", "--mode=no-reboot", "--dry-run", "-f", path); err != nil {
		return "", err
	}
	return l.talosctl(ctx, "olga", "-n", "worker-1", "apply-config", "--mode=no-reboot", "-f", path)
}

// demo runs the demo's own commands. What an operator may read, secrets and all, is not kept.
func (l *leak) demo(ctx context.Context) error {
	if err := writeExamples(ctx, l.w); err != nil {
		return err
	}
	var v seen
	for _, s := range steps(l.w) {
		out, err := s.run(ctx, l.w, v)
		if err != nil {
			return err
		}
		v.look(out)
		if slices.Contains(s.args, "machineconfig") && !s.fails {
			continue
		}
		kind := inTalosctl
		if s.tool == "bronzeward" {
			kind = inCommand
		}
		if err := l.tell(kind, s.says, out); err != nil {
			return err
		}
	}
	l.changes = append(l.changes, v.change)
	return nil
}

// tokens shows good and bad tokens to both doors, in the places they belong and in others.
func (l *leak) tokens(ctx context.Context) error {
	texts := map[string]string{}
	for name, options := range map[string][]idp.Option{
		"good": nil, "expired": {idp.At(time.Now().Add(-time.Hour))}, "for others": {idp.Audience("others")},
		"too long": {idp.Life(48 * time.Hour)}, "of no group": {idp.Groups()},
	} {
		token, err := l.token("olga", options...)
		if err != nil {
			return err
		}
		texts[name] = token
	}
	texts["a password"] = l.canaries.Awkward("a password that is no token")
	texts["a text"] = l.canaries.Text("a text that is no token")
	var all errgroup.Group
	n := 0
	for name, token := range texts {
		n++
		path, err := l.w.WriteTokenTalosconfig(fmt.Sprintf("olga-%d", n), token)
		if err != nil {
			return err
		}
		all.Go(func() error {
			_, err := l.talosctl(ctx, "olga", "--talosconfig", path, "-n", "worker-1", "version", "--short")
			return errors.Join(err, l.shown(ctx, name, token))
		})
	}
	return all.Wait()
}

// refused are good configurations that the shipped law refuses.
func (l *leak) refused(ctx context.Context) error {
	text, err := l.canaries.Worker("refused")
	if err != nil {
		return err
	}
	if _, err := l.apply(ctx, text); err != nil {
		return err
	}
	path, err := l.send(text)
	if err != nil {
		return err
	}
	patch := fmt.Sprintf(`{"machine":{"env":{"PATCHED":%q}}}`, l.canaries.Words("a patch"))
	if _, err := l.send([]byte(patch)); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"-n", "worker-1", "apply-config", "--mode=reboot", "-f", path},
		{"-n", "controlplane-1", "apply-config", "--mode=no-reboot", "-f", path},
		{"-n", "worker-1,worker-2", "apply-config", "--mode=no-reboot", "-f", path},
		{"-n", "worker-1", "patch", "machineconfig", "--mode=no-reboot", "-p", patch},
	} {
		if _, err := l.talosctl(ctx, "olga", args...); err != nil {
			return err
		}
	}
	if _, err := l.talosctl(ctx, "vera", "-n", "worker-1", "apply-config", "--mode=no-reboot", "-f", path); err != nil {
		return err
	}
	if _, err := l.talosctl(ctx, "vera", "-n", "worker-1", "get", "machineconfig", "-o", "yaml"); err != nil {
		return err
	}
	control, _ := l.w.Nodes["controlplane-1"].Active()
	if _, err := l.apply(ctx, control); err != nil {
		return err
	}
	_, err = l.command(ctx, "olga", "changes", "submit", "-n", "worker-1", "-f", path)
	return err
}

// oneApply sends one request straight to the gateway, and keeps what comes back.
func (l *leak) oneApply(ctx context.Context, person string, text []byte, dry bool) error {
	if _, err := l.send(text); err != nil {
		return err
	}
	request, err := proto.Marshal(&machine.ApplyConfigurationRequest{Data: text, Mode: machine.ApplyConfigurationRequest_NO_REBOOT, DryRun: dry})
	if err != nil {
		return err
	}
	return l.oneRequest(ctx, person, talosd.MethodApply, request, "nodes", "worker-1")
}

func (l *leak) oneRequest(ctx context.Context, person, method string, request []byte, md ...string) error {
	conf, err := l.w.ClientTLS(person)
	if err != nil {
		return err
	}
	conn, err := dial(l.w.Endpoint, conf)
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	var head, tail metadata.MD
	var answer []byte
	err = conn.Invoke(metadata.AppendToOutgoingContext(ctx, md...), method, &request, &answer, grpcHeader(&head), grpcTrailer(&tail))
	return l.tell(inGRPC, method, fmt.Sprintf("%v\n%v\n%v\n%s", err, head, tail, append(answer, status.Convert(err).Proto().String()...)))
}

// quoted are nodes that answer with the configuration they were sent and the one they have.
func (l *leak) quoted(ctx context.Context) error {
	active, _ := l.w.Nodes["worker-1"].Active()
	asked := []byte(annotated(string(active), l.canaries.Words("quoted by a node")))
	for _, fault := range []talosd.Fault{
		{Kind: talosd.ErrorBefore, Code: uint32(codes.InvalidArgument), Message: "cannot unmarshal at line 3 of\n" + string(asked) + "\nnot\n" + string(active), DryRuns: true},
		{Kind: talosd.ErrorBefore, Code: uint32(codes.Internal), Message: fmt.Sprintf("%q is not %q", asked, active), DryRuns: true},
		{Kind: talosd.ErrorBefore, Method: "/cosi.resource.State/Get", Code: uint32(codes.Internal), Message: "reading: " + string(active), Times: 3},
	} {
		if err := l.w.Nodes["worker-1"].Fault(fault); err != nil {
			return err
		}
		if err := l.oneApply(ctx, "olga", asked, true); err != nil {
			return err
		}
		l.w.Nodes["worker-1"].ClearFaults()
	}
	return l.quotedReading(ctx, string(active))
}

// quotedReading is a node that quotes its configuration when something harmless is read. Who
// asks gets the node's words; nobody else does.
func (l *leak) quotedReading(ctx context.Context, active string) error {
	err := l.w.Nodes["worker-1"].Fault(talosd.Fault{Kind: talosd.ErrorBefore, Method: "/machine.MachineService/Version", Code: uint32(codes.Internal), Message: active, Times: -1})
	if err != nil {
		return err
	}
	defer l.w.Nodes["worker-1"].ClearFaults()
	out, err := l.w.Talosctl(ctx, "olga", "-n", "worker-1", "version", "--short")
	if err == nil {
		return fmt.Errorf("the node did not answer with an error:\n%s", out)
	}
	_, err = l.command(ctx, "olga", "machines", "observe", "worker-1")
	return err
}

var noteLine = regexp.MustCompile(`(?m)^        example\.com/note: .*$`)

// annotated is a configuration with another annotation, which a node takes without a reboot.
func annotated(text, value string) string {
	return noteLine.ReplaceAllLiteralString(text, "        example.com/note: "+value)
}
