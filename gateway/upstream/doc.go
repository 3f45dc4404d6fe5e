// Package upstream is the Talos side of the gateway: it connects to a machine, reads
// its Evidence, sends one apply, reads back, and keeps the pooled connections that
// carry every other call.
//
// # Two kinds of connection
//
// A pooled connection (Pool.Conn) is long-lived, one per machine, and may dial again
// whenever it likes. It carries reads and streams, and whatever it repeats does no harm.
//
// A SendingConn (Pool.Open) is made for one apply. The socket is dialled and the TLS
// handshake done before gRPC sees it; the dialer gives it to gRPC once and refuses a
// second time. It carries the Evidence, the apply and, while it lives, the read-back,
// so the machine that was judged is the machine that is written to.
//
// # Whose credential
//
// Target.Cluster says which credential is shown and which CA the machine must prove itself
// by; TLS 1.3 shows ours only after the machine has proven itself, so a machine of one
// cluster never sees another's. The source is asked for every call and answers from memory.
// A new version takes new connections: streams over the old one go on for
// Config.RetireAfter, a SendingConn ends with the one it began with and says which.
// A credential that can do more than speak for others, or that comes with a key which is not
// its own, is not used; see CheckCredential. Without a usable one nothing is dialled.
//
// # At most one sending
//
// gRPC retries a request by itself when the server says it has not looked at it
// (RST_STREAM REFUSED_STREAM, GOAWAY), and WithDisableRetry does not switch that off.
// Four guards stand in the way, each enough on its own for the cases it covers:
//
//   - the apply carries a per-call credential that answers once and errs the second
//     time; gRPC asks it before it writes the header of any attempt
//   - the retry buffer is zero bytes, so a request that was queued is never replayed
//   - the dialer refuses a second connection
//   - a witness watches gRPC's own events; more than one begin, a transparent one, or
//     more than one payload makes the Answer an error that is never called a success
//
// # What an answer is
//
// An answer is a status that arrived in the trailers the machine sent. gRPC hands the
// caller statuses of its own making in the same type, so Apply tells them apart by
// evidence: see Answer.Got.
//
// # What is left behind
//
// The socket has SO_LINGER 0 from birth: closing it, by us at the transport deadline or
// by the kernel when the process is killed, sends a reset and throws away what has not
// left the machine. TCP_USER_TIMEOUT bounds how long the kernel keeps trying on its own.
// Bytes the network or the node already hold cannot be taken back; that is what the
// unresolved state of an Attempt is for.
//
// # Trust
//
// The machine is trusted to speak for itself once its certificate chains to the Talos CA
// and names the address dialled: whoever holds that CA can pretend to be any machine.
// Everything a machine says is parsed as a stranger's input; a missing piece is a named
// error and never a zero value. A machine in maintenance shows a certificate of its own
// making and is therefore never connected to.
package upstream
