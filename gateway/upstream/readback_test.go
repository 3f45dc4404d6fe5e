package upstream

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
)

func wants(text string) func([]byte) bool {
	return func(b []byte) bool { return string(b) == text }
}

func TestReadBackSeesTheApplyOnTheSameConnection(t *testing.T) {
	p := newPKI(t)
	n := startNode(t, p, func(n *node) {
		n.apply = func(_ context.Context, n *node, r []byte) ([]byte, error) {
			n.lock(func() { n.setText(string(r)) })

			return nil, nil
		}
	})
	c := openFor(t, p.pool(t), n.target())

	before, err := c.Evidence(ctxFor(t))
	must(t, err)

	if a := c.Apply(ctxFor(t), []byte("new\n"), []string{RoleAdmin}, "id", soon()); !a.Got {
		t.Fatalf("answer is %+v", a)
	}

	r := c.ReadBack(ctxFor(t), ReadBackConfig{Before: before, Want: wants("new\n")})
	if !r.Matched || !r.Moved || r.Rebooted || r.OtherMachine || r.AddressChanged || r.Reads != 1 || r.Err != nil {
		t.Errorf("read back %+v", r)
	}

	if got := n.accepted.Load(); got != 1 {
		t.Errorf("node was dialled %d times", got)
	}
}

func TestReadBackAfterALostAnswerGoesOverThePoolAndSendsNothing(t *testing.T) {
	p := newPKI(t)
	free := make(chan struct{})
	n := startNode(t, p, func(n *node) {
		n.apply = func(_ context.Context, n *node, r []byte) ([]byte, error) {
			n.lock(func() { n.setText(string(r)) })
			<-free

			return nil, nil
		}
	})
	t.Cleanup(func() { close(free) })
	c := openFor(t, p.pool(t), n.target())

	before, err := c.Evidence(ctxFor(t))
	must(t, err)

	a := c.Apply(ctxFor(t), []byte("new\n"), []string{RoleAdmin}, "id", time.Now().Add(time.Second))
	if a.Got || !a.Written {
		t.Fatalf("answer is %+v", a)
	}

	r := c.ReadBack(ctxFor(t), ReadBackConfig{Before: before, Want: wants("new\n")})
	if !r.Matched || r.Err != nil || len(n.sent()) != 1 || n.accepted.Load() != 2 {
		t.Errorf("read back %+v; %d applies over %d connections", r, len(n.sent()), n.accepted.Load())
	}
}

func TestReadBackTellsWhatItSaw(t *testing.T) {
	other := func(n *node) { n.furnish("node-b", "cluster-a", "", "new\n") }
	reboot := func(text string) func(*node) {
		return func(n *node) {
			n.setText(text)

			for _, r := range n.resources {
				r.Metadata.Created = timestamppb.New(bootTime.Add(time.Hour))
			}
		}
	}

	for _, row := range []struct {
		name string
		edit func(*node)
		want func(ReadBack) bool
	}{
		{"nothing moved", func(*node) {}, func(r ReadBack) bool { return !r.Matched && !r.Moved && !r.Rebooted }},
		{"another text", func(n *node) { n.setText("theirs\n") }, func(r ReadBack) bool { return !r.Matched && r.Moved && !r.Rebooted }},
		{"only on disk", func(n *node) {
			active := n.resources[activeResource.kind+"/"+activeResource.id]
			n.setText("new\n")
			n.resources[activeResource.kind+"/"+activeResource.id] = active
		}, func(r ReadBack) bool { return !r.Matched && r.PersistentMatches && !r.ActiveMatches && r.Moved }},
		{"rebooted without it", reboot("version: v1alpha1\n"), func(r ReadBack) bool { return !r.Matched && r.Rebooted && r.Moved }},
		{"rebooted with it", reboot("new\n"), func(r ReadBack) bool { return r.Matched && r.Rebooted }},
		{"another machine with the same text", other, func(r ReadBack) bool { return !r.Matched && r.OtherMachine }},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := newPKI(t)
			n := startNode(t, p)
			pool := p.pool(t)

			before, err := pool.Observe(ctxFor(t), n.target())
			must(t, err)
			n.lock(func() { row.edit(n) })

			r := pool.ReadBack(ctxFor(t), n.target(), ReadBackConfig{Before: before, Want: wants("new\n"), Once: true})
			if !row.want(r) || r.Reads != 1 || r.Last == nil {
				t.Errorf("read back %+v", r)
			}
		})
	}
}

func TestReadBackGoesOnUntilTheTextIsThereOrItsTimeIsOver(t *testing.T) {
	p := newPKI(t)
	n := startNode(t, p)
	pool := p.pool(t)

	before, err := pool.Observe(ctxFor(t), n.target())
	must(t, err)

	var waits []time.Duration

	// The machine is away, then back without the text, then has it.
	pause := func(_ context.Context, d time.Duration) error {
		waits = append(waits, d)

		switch len(waits) {
		case 1:
			n.lock(func() {
				n.errs[activeResource.kind+"/"+activeResource.id] = status.Error(codes.Unavailable, "away")
			})
		case 2:
			n.lock(func() { clear(n.errs) })
		case 3:
			n.lock(func() { n.setText("new\n") })
		}

		return nil
	}

	r := pool.ReadBack(ctxFor(t), n.target(), ReadBackConfig{Before: before, Want: wants("new\n"), Pause: pause})
	if !r.Matched || r.Reads != 3 || len(waits) != 3 || waits[0] != firstPause || waits[2] != 4*firstPause {
		t.Errorf("read back %+v after %v", r, waits)
	}

	over := errors.New("over")

	r = pool.ReadBack(ctxFor(t), n.target(), ReadBackConfig{
		Before: before, Want: wants("never"),
		Pause: func(context.Context, time.Duration) error { return over },
	})
	if r.Matched || r.Reads != 1 || r.Last == nil || r.Err != nil {
		t.Errorf("read back %+v", r)
	}
}

func TestReadBackWithoutADeadlineReadsOnce(t *testing.T) {
	p := newPKI(t)
	n := startNode(t, p)

	r := p.pool(t).ReadBack(context.Background(), n.target(), ReadBackConfig{Want: wants("never")})
	if r.Reads != 1 {
		t.Errorf("read back %+v", r)
	}
}

func TestReadBackOfAMachineThatIsGoneSaysWhy(t *testing.T) {
	p := newPKI(t)
	n := startNode(t, p)
	n.grpc.Stop()

	r := p.pool(t).ReadBack(ctxFor(t), n.target(), ReadBackConfig{Want: wants("x"), Once: true})
	if r.Matched || r.Last != nil || ClassOf(r.Err) != ClassUnreachable {
		t.Errorf("read back %+v", r)
	}
}
