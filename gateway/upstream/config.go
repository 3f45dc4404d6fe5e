package upstream

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

const (
	// DefaultPort is apid's port.
	DefaultPort = 50000
	// MaxMessage is the largest gRPC message Talos takes or gives, in bytes, and ours in
	// both directions. grpc-go's own default for receiving is 4 MiB.
	MaxMessage = 32 << 20

	// Talos's own client uses these windows; they let a configuration of a few hundred
	// kilobytes through in one round trip.
	streamWindow = 32 * 65535
	connWindow   = 16 * 65535

	// defaultDialTimeout is per address, TCP and TLS together: a machine on the same
	// network answers within milliseconds, and a caller is waiting.
	defaultDialTimeout = 3 * time.Second
	// defaultReadTimeout bounds one reading of Evidence.
	defaultReadTimeout = 5 * time.Second
	// defaultIdleTimeout closes a pooled connection nobody has used for that long.
	defaultIdleTimeout = 5 * time.Minute
	// defaultRetireAfter is how long a stream may go on over a connection whose
	// addresses or credential are no longer current.
	defaultRetireAfter = 30 * time.Second
	// defaultWarmFor is how long a prepared connection waits for its apply.
	defaultWarmFor = 5 * time.Second

	// nodeKeepalive is above five minutes because apid sets no keepalive policy of its
	// own, and grpc-go's default answers pings that come more often with GOAWAY.
	nodeKeepalive        = 330 * time.Second
	nodeKeepaliveTimeout = 20 * time.Second
	// silence is how long the kernel lets sent bytes go unacknowledged before it gives
	// the connection up (TCP_USER_TIMEOUT); it finds a dead machine where pings may not.
	silence = 20 * time.Second
)

// Config is what a Pool needs.
type Config struct {
	// Credential gives the client certificate and the Talos CA of each cluster. Required.
	Credential CredentialSource
	// Port is used for addresses that come without one; zero means DefaultPort.
	Port uint16
	// DialTimeout bounds TCP and TLS for one address; zero means 3 s.
	DialTimeout time.Duration
	// ReadTimeout bounds one reading of Evidence; zero means 5 s. A shorter deadline of
	// the caller's context wins.
	ReadTimeout time.Duration
	// IdleTimeout closes a pooled connection without calls; zero means 5 min.
	IdleTimeout time.Duration
	// RetireAfter ends what still runs over a connection whose addresses or credential
	// were replaced; zero means 30 s.
	RetireAfter time.Duration
	// WarmFor is how long Prepare keeps an unused connection; zero means 5 s.
	WarmFor time.Duration
	// Logger gets the causes that callers do not see; nil discards.
	Logger *slog.Logger
}

func (c Config) withDefaults() (Config, error) {
	var problems []error

	if c.Credential == nil {
		problems = append(problems, errors.New("credential source is required"))
	}

	set := func(name string, d *time.Duration, def time.Duration) {
		switch {
		case *d == 0:
			*d = def
		case *d < 0:
			problems = append(problems, fmt.Errorf("%s must not be negative", name))
		}
	}

	set("dial timeout", &c.DialTimeout, defaultDialTimeout)
	set("read timeout", &c.ReadTimeout, defaultReadTimeout)
	set("idle timeout", &c.IdleTimeout, defaultIdleTimeout)
	set("retire after", &c.RetireAfter, defaultRetireAfter)
	set("warm for", &c.WarmFor, defaultWarmFor)

	if c.Port == 0 {
		c.Port = DefaultPort
	}

	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}

	return c, errors.Join(problems...)
}

// Target says where a machine is.
type Target struct {
	// Machine identifies the machine in the pool (its row's id). When its addresses
	// change, the connection to the old ones is dropped. Empty: the addresses stand for
	// the machine.
	Machine string
	// Cluster says whose credential is shown and whose CA the machine must prove itself by.
	Cluster string
	// Addresses are tried in order. A zero port means Config.Port. Names are not
	// accepted: an address is resolved once, by whoever recorded it.
	Addresses []netip.AddrPort
	// ServerName replaces the dialled address in the check of the machine's certificate,
	// for tests and for machines whose certificate carries a name only. Empty is right
	// for Talos: its certificates carry their addresses.
	ServerName string
	// NodeID is the pinned Talos node id. Reach goes on to the next address when the
	// machine behind one has another id; nothing else looks at it. Empty: not pinned.
	NodeID string
}

// validate returns the addresses with their ports filled in.
func (t Target) validate(port uint16) ([]netip.AddrPort, error) {
	if len(t.Addresses) == 0 {
		return nil, &Error{Class: ClassUnreachable, Part: "address", Err: errors.New("machine has no address")}
	}

	out := make([]netip.AddrPort, 0, len(t.Addresses))

	for _, a := range t.Addresses {
		if !a.Addr().IsValid() || a.Addr().IsUnspecified() || a.Addr().IsMulticast() {
			return nil, &Error{Class: ClassUnreachable, Part: "address", Err: fmt.Errorf("%q is no address of a machine", a)}
		}

		p := a.Port()
		if p == 0 {
			p = port
		}

		out = append(out, netip.AddrPortFrom(a.Addr().Unmap(), p))
	}

	return out, nil
}

// key names the pooled connection; place changes when its addresses or its cluster do.
func (t Target) key(addresses []netip.AddrPort) (key, place string) {
	parts := make([]string, 0, len(addresses)+1)
	for _, a := range addresses {
		parts = append(parts, a.String())
	}

	place = strings.Join(append(parts, strconv.Quote(t.ServerName), strconv.Quote(t.Cluster)), " ")
	if t.Machine != "" {
		return "machine " + t.Machine, place
	}

	return "address " + place, place
}
