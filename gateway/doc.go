// Package gateway is the gate: it listens where talosctl is pointed, decides every
// call, and sends on only what was allowed and written down.
//
// # The way of one call
//
//	who?      identity.Authenticator proves the Caller from certificate or token
//	what?     one message and its end are read; facts says method, class, target
//	judged    policy decides on Facts
//	written   the Entry is durable in PostgreSQL (audit)
//	sent      the same bytes go to the machine (upstream)
//	answered  the answer goes back; its Outcome is written
//
// Reads, other mutations and applies differ only between judged and sent: a read's
// entry is part of a group commit (read.go), a mutation's is its own transaction
// under the machine's lock (mutate.go), and an apply reads Evidence first, is judged
// for good under the locks, and becomes an Attempt (admit.go).
//
// # What a crash leaves
//
// Before the entry is committed: nothing was sent, nothing is recorded; the caller
// saw no answer. After it: the entry stands, for an apply with an open Attempt that
// holds its machine; settle.go of the next process (or another replica, after the
// lease) observes the machine and closes the attempt by the live path's own
// functions. Nothing is ever sent a second time.
//
// # Trust
//
// PostgreSQL is trusted to keep what it acknowledged and to be the clock; who can
// change it as a superuser can change what is decided. Nodes are not trusted: their
// answers are recorded as theirs. Callers are not trusted before identity, and only
// for what policy gives them afterwards. A listed load balancer is trusted to say which
// address a client has (balancers.go); nobody else can.
package gateway
