// Package vault seals the exact bytes of a change, so that PostgreSQL, its write-ahead log
// and a dump of it never hold configuration text.
//
//	text + what it belongs to ──Seal──▶ envelope, kept in control.sealed_bytes
//	envelope + what it belongs to ──Open──▶ the text, or a typed refusal
//
// What it belongs to (change, machine, digest; AssociatedData puts them together) is
// authenticated and not kept in the envelope: bytes sealed for one change open for no other,
// and a row that was moved, swapped or altered is refused as Altered.
//
// # Development
//
// Development is the sealer of the demo and of tests: AES-256-GCM under a key from a file that
// says in its name that it is for development. OpenBao takes its place behind the same two
// methods: there a data key per change is wrapped by Transit, the bytes are sealed in process
// under that data key with the same associated data, and opening asks OpenBao each time, so
// that it can refuse, be sealed, or be away. The envelope's first byte tells the two apart:
// envelopes of the one are Refused by the other, never tried.
//
// # When it cannot be opened
//
// There are three classes, and callers tell them apart by errors.Is:
//
//   - ErrUnavailable: nothing was found out; the same call may succeed a moment later.
//   - ErrRefused: the holder of the keys answered and will not open this: it has no key of
//     that version, or the envelope is another sealer's. Waiting does not help; bringing the
//     key back does. It is no proof that anybody touched the bytes, hence not ErrAltered, and
//     no outage, hence not ErrUnavailable: a person must act, and the text says on what.
//   - ErrAltered: these bytes are not what was sealed for this change.
//
// In all three nothing is sent and the change stays unspent.
//
// # Trust
//
// The key file is trusted: whoever can read it can open every sealed change that he can also
// read from the database or a backup of it, and whoever can write it can choose the keys. Its
// mode is all that protects it, which is why it is for development.
//
// # What a crash leaves
//
// Nothing here is kept between calls. A process that ends after Seal and before the
// transaction commits leaves no envelope anywhere; one that ends after it leaves a change
// whose bytes any replica with the key can open. Text in memory is not wiped, and a core dump
// would hold it.
package vault
