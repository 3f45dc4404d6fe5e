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
//	3  machine                row, FOR UPDATE; several in the order of their ids
//	4  change                 its row of states, FOR UPDATE; several in the order of their ids,
//	                          after the machines of all of them
//	5  cluster slot           the cluster's row, FOR UPDATE
//	6  clock                  clock_timestamp(), read after the last lock
//	7  requester              row, when a change is captured: see below
//
// A change is never locked, and never moves, but under its machine's lock. So whoever holds a
// machine sees its changes stand still, with their approvals: what moves a change or adds to
// it takes machine and change first, whether it is a decision, an act, the end of an attempt,
// an observation or the sweep of the clocks. The end of an attempt, a late landing and the sweep take no
// authority lock: they take nobody's authority away, and look at what is revoked under the
// machine's lock; revoking an identity therefore locks what is being sent as well as what is
// live.
//
// A drift is never opened, followed or closed but under its machine's lock, and what was last
// seen of a machine is kept under it: neither has a lock of its own.
//
// The requester's row comes after the clock, because only who captures needs it, and nobody
// who holds it waits for another lock. What is counted under it is what has committed by then;
// a change whose clock ran out during the wait still counts, which refuses too much and never
// too little.
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
// What was accounted for may still be seen to have landed. The state stays, because it is what a
// person judged; the landing is an outcome and a row of its own, once, and what the machine is
// known to hold follows. It explains nothing while a drift is open, nor on a node that
// was pinned in the place of its own, nor once something else was applied or adopted.
//
// # What people close
//
// A freeze and a retirement are set under the exclusive side of the authority lock, and are read
// with the machine's row. Each is a hold of every decision about its machine, refuses an attempt in
// guard and, by trigger, as a row. An unresolved attempt of a retired machine stays so for good,
// because nobody can look any more; it holds nobody else up.
//
// # States of a change
//
//	          enough approvals count           spent by an attempt
//	waiting ─────────────────────▶ approved ───────────────────────▶ spent
//	  │  ◀─────────────────────────  │  ◀────────────────────────────
//	  │  an approval was revoked, or │  its attempt was rejected or not sent; then what was
//	  │  the law asks for more       │  revoked meanwhile is taken off at once
//	  └──────────────┬───────────────┘
//	                 ├─▶ superseded   the machine's base or identity moved
//	                 ├─▶ cancelled, rejected
//	                 ├─▶ expired      one of the two clocks ran out
//	                 └─▶ revoked      its requester was
//
// The last five are final. approve_by runs from the capture, and is over when the last needed
// approval has come; use_by runs from that one, ends again when an approval is revoked, and
// goes on while an attempt is under way. Who spends or approves looks at the clock itself:
// marking what is over is for lists.
//
// A change is ended by what was read of its machine only when that reading is current (I7):
// its serial noted before it and unmoved since, nothing open or unresolved, the pinned
// identity, and digests of one scheme and key. For the same reason nothing is captured while
// an attempt may still land: the change it spends may come back, and one binding is live once.
//
// # States of a drift
//
//	open ──▶ adopted    by an adoption: what was found is taken as applied, nothing is sent
//	  ├────▶ reverted   by the attempt of a revert, when it is completed
//	  └────▶ returned   by a sight that shows what was applied again
//
// All three are final. A sight of a machine (RecordSight) judges drift by the same rule as other
// evidence (I7): its serial noted before the reading and unmoved since, nothing under way, the
// pinned identity. What a sight writes down moves the serial, so that one that was read before it
// judges nothing after it. A machine that nothing is known to have been applied to takes the first sight
// as what it is held against; so does pinning, by what was observed for it.
//
// # Trust
//
// PostgreSQL is trusted with intent: someone who can write schema control as its owner can
// pin another machine, open a slot or drop a constraint. It is not trusted with secrets:
// nothing in this schema is one, and digests are keyed. Other logins, the auditor's among
// them, can hold no lock that a decision waits for; but PostgreSQL keeps no login from using
// up what all share, its connections and its lock table.
package control
