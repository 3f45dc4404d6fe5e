package upstream

import (
	"errors"
	"fmt"
	"net/netip"
)

// Class says what kind of trouble a machine gave.
type Class string

const (
	// ClassUnreachable: no connection, or it broke or timed out while reading.
	ClassUnreachable Class = "unreachable"
	// ClassUntrusted: something answered at the address but could not prove that it is
	// the machine: another CA, another name, or the self-made certificate of maintenance.
	ClassUntrusted Class = "untrusted"
	// ClassRefused: the machine answered a read with an error.
	ClassRefused Class = "refused"
	// ClassIncomplete: the machine answered, and a piece of the Evidence was missing,
	// malformed or not what was asked for.
	ClassIncomplete Class = "incomplete"
	// ClassCredential: our own certificate cannot be had now or is not fit for its purpose.
	ClassCredential Class = "credential"
	// ClassNoCredential: no certificate of ours is held for the machine's cluster.
	ClassNoCredential Class = "no-talos-credential"
)

// Error is every error this package makes about a machine. Its text names addresses and
// pieces, never the content of a configuration.
type Error struct {
	Class Class
	// Address is the machine's address where there was one connection; the zero value
	// where several were tried, and then Err names each.
	Address netip.AddrPort
	// Part names the piece that was missing, such as "machine type"; may be empty.
	Part string
	Err  error
}

// Error says class, address, piece and cause.
func (e *Error) Error() string {
	s := string(e.Class)
	if e.Address.IsValid() {
		s += " at " + e.Address.String()
	}

	if e.Part != "" {
		s += ": reading " + e.Part
	}

	return fmt.Sprintf("machine %s: %v", s, e.Err)
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// ClassOf returns the class of err, or "" when err is none of this package's.
func ClassOf(err error) Class {
	var e *Error
	if errors.As(err, &e) {
		return e.Class
	}

	return ""
}

// OurCredential is true for an error about our own certificate: no machine was dialled.
func OurCredential(err error) bool {
	class := ClassOf(err)

	return class == ClassCredential || class == ClassNoCredential
}

var (
	// ErrSecondDial is what the dialer of a SendingConn says when gRPC wants another
	// connection.
	ErrSecondDial = errors.New("a sending connection is dialled once")
	// ErrSecondAttempt is what stops gRPC from sending an apply again.
	ErrSecondAttempt = errors.New("an apply is attempted once")
	// ErrSpent is the cause in the Answer of a second Apply on one SendingConn.
	ErrSpent = errors.New("the sending connection has carried its apply")
	// ErrClosed is returned by a closed Pool.
	ErrClosed = errors.New("the pool is closed")
)
