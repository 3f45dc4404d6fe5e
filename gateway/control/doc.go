// Package control is the room of intent: which machines exist and who they are, who may
// no longer act, which law is live, and what is being sent to whom right now. It is the
// schema `control`, and the only code that writes it.
//
// # The decision transaction
//
// Store.Admit is one transaction, READ COMMITTED, and this is the lock order of every
// transaction of this package; a room that takes one of these locks takes it here:
//
//	1  idempotency key        (acts over HTTP)
//	2  authority              lock_authority_shared() for decisions,
//	                          lock_authority() for whatever takes authority away
//	3  machine                row, FOR UPDATE
//	4  change                 row, FOR UPDATE
//	5  cluster slot           the cluster's row, FOR UPDATE
//	6  clock                  clock_timestamp(), read after the last lock
//
// The authority lock is the first statement, and the version is read in the next one,
// because READ COMMITTED takes a new snapshot per statement: a version read by the
// statement that waited for the lock would be the one from before the wait. A revocation
// that has returned success has held the exclusive side and committed, so every decision
// that commits later took its shared side afterwards and saw it.
//
// The authority lock is a lock on the empty table control_gate.authority, taken through those
// two functions only, which the gateway's role alone may execute: it is nobody else's to hold.
// No advisory lock is part of a decision, because any login may take any of those. Two are
// used beside decisions: 4779331608118544, which makes migrations take turns and which a
// migration does not wait for longer than a minute, and one of a random key while Open checks
// its session.
//
// A session that stops within a transaction is ended by the server after ten seconds, so that
// a paused replica cannot hold off revocations for longer; a wait for a lock ends after fifteen.
//
// Between the locks and the commit runs the caller's judge, which is pure: no network
// call is made inside a transaction.
//
// # What a crash leaves
//
//	before COMMIT            nothing: the row locks and the authority lock end with the connection
//	COMMIT without an answer unknown: read by entry id on a new connection; nothing is ever sent
//	after COMMIT, before send an open attempt whose lease ends; DeadAttempts lists it
//	after the send           the same, and the machine stays held until evidence or a person
//	                         says what became of it
//
// # States of an attempt
//
//	open ──▶ completed | rejected | not_sent          by its living owner only
//	  └────▶ unresolved ──▶ completed                 by evidence that shows the digest
//	                   └──▶ accounted | failed        by a person, after the settle floor
//
// # Trust
//
// PostgreSQL is trusted with intent: someone who can write schema control as its owner can
// pin another machine, open a slot or drop a constraint. It is not trusted with secrets:
// nothing in this schema is one, and digests are keyed. Other logins, the auditor's among
// them, can hold no lock that a decision waits for; but PostgreSQL keeps no login from using
// up what all share, its connections and its lock table.
package control
