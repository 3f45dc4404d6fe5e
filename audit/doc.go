// Package audit is the book: every decision and what came of it, in PostgreSQL, before anything goes on to a node.
//
// An Entry is the row of one decision, an Outcome an append-only fact about it. Each is a record: canonical bytes, built
// once (RecordVersion documents them member by member) and stored verbatim. The columns beside a record are
// projections for whoever searches; facts and reasons are in the record only. The database sets recorded_at from its own
// clock and computes the leaf hash (Leaf, audit.leaf); the gateway's role cannot name either in an INSERT.
//
// # Writing
//
//	applies, acts     Append, AppendOutcome   in the caller's transaction, durable with it
//	everything else   Book                    group commit: rows that arrive together share a transaction
//
//	Write ─▶ queue (bounded, callers wait) ─▶ two committers:
//	           begin and guard: authority lock shared, then its version ─▶ rows judged at another version: StaleError
//	           ─▶ all rows and COMMIT in one message ─▶ receipts
//
// What a crash or a fault leaves, step by step:
//
//	before the rows are sent    nothing; the caller was told nothing, or ErrUnavailable
//	a row is refused            nothing of the batch; its halves go by themselves, and in the end only the bad row is refused
//	no room, no memory          nothing of the batch; ErrUnavailable, once a few tries have failed
//	COMMIT has no answer        unknown: a new connection waits until the server's process has ended, then reads by id.
//	                            Found is durable, not found is not, not known in time is ErrUnavailable
//	after COMMIT                the rows, each with its id in audit.unsequenced; a caller that was not told is not forwarded
//
// The sequencer takes rows out of audit.unsequenced and gives each its place in the tree; see audit/tree.
//
// # Guarding
//
// Three roles: bronzeward_owner owns the schema and runs Migrate; bronzeward_gateway inserts and selects;
// bronzeward_auditor selects. UPDATE, DELETE and TRUNCATE are refused by the grants and by triggers on the tables and on
// every partition, whoever asks (CheckGuards looks). Partitions, one per month of recorded_at in UTC, are made by
// audit.ensure_partitions, which runs as its owner; a PartitionKeeper has them made ahead of time.
//
// Trust: PostgreSQL is trusted to keep what it said it committed, and its clock. Its superuser and bronzeward_owner can
// disable the triggers and rewrite the book; only the signed tree makes that visible. Who reads the database reads
// names, addresses and digests, never a secret value or a configuration.
package audit
