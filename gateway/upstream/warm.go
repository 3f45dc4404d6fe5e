package upstream

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"google.golang.org/grpc/connectivity"
)

// Prepare opens a sending connection ahead of the apply that will need it, and keeps it
// for Config.WarmFor; Open takes it. A machine has at most one; it serves one apply like
// any other, and its Evidence is read when the apply comes, not now. It is a saving of
// the TCP and TLS round trips and nothing else: an error here means nothing.
func (p *Pool) Prepare(ctx context.Context, t Target) error {
	addresses, err := t.validate(p.cfg.Port)
	if err != nil {
		return err
	}

	cred, err := p.credential(ctx, t.Cluster)
	if err != nil {
		return err
	}

	key, place := t.key(addresses)

	p.mu.Lock()
	_, have := p.warm[key]
	p.mu.Unlock()

	if have {
		return nil
	}

	c, err := p.open(ctx, t, addresses, cred)
	if err != nil {
		return err
	}

	for s := c.conn.GetState(); s != connectivity.Ready; s = c.conn.GetState() {
		if s == connectivity.TransientFailure || !c.conn.WaitForStateChange(ctx, s) {
			_ = c.Close()

			return &Error{Class: ClassUnreachable, Address: c.Address(), Err: errors.New("the machine closed the connection")}
		}
	}

	p.mu.Lock()
	defer p.mu.Unlock()

	if _, have := p.warm[key]; have || p.closed {
		delete(p.sending, c)

		go c.end() // not under the pool's lock

		return nil
	}

	w := &warmed{conn: c, place: place, cred: cred}
	w.expire = time.AfterFunc(p.cfg.WarmFor, func() {
		p.mu.Lock()
		mine := p.warm[key] == w
		if mine {
			delete(p.warm, key)
		}
		p.mu.Unlock()

		if mine {
			_ = c.Close()
		}
	})
	p.warm[key] = w

	return nil
}

// takeWarm gives a prepared connection to its one apply, or nil.
func (p *Pool) takeWarm(t Target, addresses []netip.AddrPort, cred *credential) *SendingConn {
	key, place := t.key(addresses)

	p.mu.Lock()
	w := p.warm[key]
	delete(p.warm, key)
	p.mu.Unlock()

	if w == nil {
		return nil
	}

	w.expire.Stop()

	if w.place != place || !w.cred.same(cred.Credential) || !w.conn.alive() {
		_ = w.conn.Close()

		return nil
	}

	return w.conn
}
