package gateway

import (
	"net"
	"sync/atomic"
	"testing"
)

func TestOneAddressHoldsOnlySoManyConnections(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var refused atomic.Int32
	l := limitConnections(inner, 2, func() { refused.Add(1) })
	accepted := make(chan net.Conn)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- c
		}
	}()
	var mine []net.Conn
	dial := func() net.Conn {
		c, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		mine = append(mine, c)
		return c
	}
	dial()
	first := <-accepted
	dial()
	second := <-accepted
	third := dial()
	if _, err := third.Read(make([]byte, 1)); err == nil {
		t.Error("a third connection of one address stayed open")
	}
	if refused.Load() != 1 {
		t.Errorf("%d connections were counted as refused", refused.Load())
	}
	_ = first.Close()
	_ = first.Close() // gives its place back once
	dial()
	third2 := <-accepted
	for _, c := range append(mine, second, third2) {
		_ = c.Close()
	}
	_ = inner.Close()
	<-done
	if len(l.open) != 0 {
		t.Errorf("places are still held: %v", l.open)
	}
}

func TestAddressesAreCountedByWhatOnePartyIsGiven(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.1": "192.0.2.1", "::ffff:192.0.2.1": "192.0.2.1",
		"2001:db8:1:2:3::4": "2001:db8:1:2::/64", "2001:db8:1:2:ffff::1": "2001:db8:1:2::/64",
		"fe80::1%eth0": "fe80::/64", "odd": "odd",
	} {
		if got := addressKey(address); got != want {
			t.Errorf("%s counts as %s, want %s", address, got, want)
		}
	}
}
