package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"bronzeward/fixtures/talosd"
	"bronzeward/fixtures/world"
)

// dies ends gateways in the middle of an apply, so that they print what every goroutine does.
func (l *leak) dies(ctx context.Context) error {
	for i, signal := range []syscall.Signal{syscall.SIGQUIT, syscall.SIGABRT} {
		name := fmt.Sprintf("gateway-%d", i+1)
		g := l.w.Gateways[name]
		if g == nil {
			// The second one takes the place of the first, and writes its log as JSON.
			l.w.Extra = strings.Replace(l.w.Extra, "level: debug", "level: debug\n  format: json", 1)
			var err error
			if g, err = l.w.StartGatewayAt(ctx, name, l.w.Endpoint); err != nil {
				return err
			}
			l.w.Gateways = map[string]*world.Gateway{name: g}
			if err := l.second(ctx, g); err != nil {
				return err
			}
		}
		if err := l.kill(ctx, g, signal); err != nil {
			return err
		}
	}
	for i, body := range l.hook.said() {
		if err := l.tell(inWebhook, fmt.Sprint(i), body); err != nil {
			return err
		}
	}
	if len(l.hook.said()) == 0 {
		return errors.New("no webhook was sent")
	}
	return nil
}

// second does with a gateway that writes JSON a part of what was done with the first.
func (l *leak) second(ctx context.Context, g *world.Gateway) error {
	*l.w = *l.w.At(g)
	text, err := l.canaries.Worker("the second gateway")
	if err != nil {
		return err
	}
	if _, err := l.apply(ctx, text); err != nil {
		return err
	}
	return errors.Join(l.tokens(ctx), l.broken(ctx), l.quoted(ctx))
}

// kill ends a gateway while it holds a configuration, and keeps what it prints at its end.
func (l *leak) kill(ctx context.Context, g *world.Gateway, signal syscall.Signal) error {
	if _, err := l.ask(ctx, "", http.MethodGet, "/metrics", nil); err != nil {
		return err
	}
	for _, file := range []string{"cmdline", "environ"} {
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", g.Pid(), file))
		if err != nil {
			return err
		}
		if err := l.tell(inProcess, g.Instance+" "+file, string(raw)); err != nil {
			return err
		}
	}
	node := l.w.Nodes["worker-2"]
	if err := node.Fault(talosd.Fault{Kind: talosd.Pause, Method: "/cosi.resource.State/Get", Times: -1}); err != nil {
		return err
	}
	active, _ := node.Active()
	path, err := l.send([]byte(annotated(string(active), l.canaries.Words("held when the gateway dies"))))
	if err != nil {
		return err
	}
	held := make(chan error, 1)
	before := len(node.Log().Calls())
	go func() {
		out, err := l.w.Talosctl(ctx, "olga", "-n", "worker-2", "apply-config", "--mode=no-reboot", "-f", path)
		held <- l.tell(inTalosctl, "held", saidAndEnded(out, err))
	}()
	waiting, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if err := node.Log().Wait(waiting, func(calls []talosd.Call) bool {
		for _, c := range calls[min(before, len(calls)):] {
			if c.Held {
				return true
			}
		}
		return false
	}); err != nil {
		return fmt.Errorf("waiting until the node holds a call: %w", err)
	}
	from := len(g.Log())
	if err := syscall.Kill(g.Pid(), signal); err != nil {
		return err
	}
	<-g.Done()
	node.ClearFaults()
	if err := <-held; err != nil {
		return err
	}
	text := g.Log()[from:]
	if !strings.Contains(text, "goroutine ") {
		return fmt.Errorf("after %v the gateway printed no goroutines:\n%.2000s", signal, text)
	}
	return l.tell(inCrash, g.Instance, text)
}
