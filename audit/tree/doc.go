// Package tree proves the book. It gives every row of the book its place in a Merkle tree, has the tree's head signed by
// a key that the database does not have, and shows to whoever has the public key that a record stands in the book and
// that the book only ever grew.
//
//	audit.unsequenced ─▶ Sequencer ─▶ audit.leaves, audit.tiles ─▶ check, sign ─▶ audit.checkpoints ─▶ Publisher
//	                                            └────────────┬───────────────────────────┘
//	                             Prove ─▶ Proof ─▶ Check (offline, public keys alone)
//	                             Consistency ─▶ CheckConsistency (a checkpoint that was kept, and a newer one)
//
// # The tree
//
// RFC 6962, by golang.org/x/mod/sumdb/tlog. Leaf data are the record followed by recorded_at as microseconds since 1970
// in eight bytes, big endian; the leaf is SHA-256 over a zero byte and those (audit.Leaf, tlog.RecordHash). There is one
// tree per epoch; a row that still waits when the epoch moves goes into the new one. A checkpoint is a signed note
// (golang.org/x/mod/sumdb/note) of three lines (c2sp.org/tlog-checkpoint): bronzeward/<installation>/<epoch>, size, root.
//
// A row's place says when it was seen, not when it was recorded: a transaction that commits late is sequenced late. There
// is no watermark below which rows count as complete, so that nothing is lost by a transaction that stays open, in this
// database or another of the server.
//
// # What a crash leaves
//
// Recovery has no code of its own: a session that gets the lock loads what the database says and goes on, and so does one
// whose step failed. Steps of the holder, in their order:
//
//	step, where the process ends        persisted                    what the next holder does
//	lock taken                          nothing                      gets the lock when the server ends the session
//	tree begun                          an empty tree                uses it
//	rows taken, leaves inserted         nothing: one transaction     takes the rows
//	COMMIT without answer               all of the round or nothing  loads the size and the edge, and so sees which
//	round committed, not signed         places under no checkpoint   signs
//	held to the last checkpoint         as before                    holds it again, signs
//	signed, not stored                  as before; the signature     signs again
//	                                    was seen by nobody
//	stored, not published               the checkpoint               publishes the last stored again
//	round committed, the epoch moved    places of the earlier tree   signs the earlier tree's head, once
//	                                    under no checkpoint
//
// Failures that are no crash:
//
//	failure                              sequencing   signing          said by
//	the database is away                 waits        waits            Errors[connect]
//	the epoch cannot be read             waits        waits            Errors[load] or [sequence]
//	another replica has the lock         its          its              Holder false
//	the lock was lost unnoticed          the round fails on (tree, index), rolls back, loads anew
//	a row can have no place              all others   goes on          Errors[sequence]
//	the Signer is away or slow           goes on      is tried again   Errors[sign]
//	a signature does not verify          goes on      is tried again   Errors[sign]
//	Permit cannot be asked               goes on      is tried again   Errors[sign]
//	Permit says that more was signed     goes on      never again      Refused, Errors[sign]
//	Permit says that the tree was left   goes on      never again      -
//	the last checkpoint is by no
//	version of the key                   goes on      not, until it is Errors[sign]
//	the tree does not begin with what
//	was signed of it                     goes on      never again      Refused, Errors[check]
//	hashes of the right edge are gone    stops        stops            Errors[load]
//	a publisher fails                    goes on      goes on          Errors[publish <name>]
//
// # Trust
//
// PostgreSQL is trusted to keep what it committed; synchronous_commit is set on if it is not. Whoever can change it with
// the triggers off can rewrite rows and tree alike, and cannot sign: a checkpoint kept elsewhere then has no consistency
// proof. What was never under a checkpoint can be rewritten unseen, which is a matter of CheckpointEvery and of the Signer's
// being there. The Signer's key is trusted to be its own: whoever can sign and change the database can show different books
// to different people, until two of them compare checkpoints.
//
// The advisory lock is a courtesy: it keeps replicas from failing against each other. Correct the tree is by the primary
// key (tree, index) and by the unique id, also for two holders at once.
package tree
