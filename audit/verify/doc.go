// Package verify holds the whole book to its proof: every row to its columns and its leaf, every leaf to its row, the
// tree to its tiles, and the tree to every checkpoint, those an auditor kept at home included.
//
//	entries, outcomes ─▶ two readers, by ranges of time ─▶ record against columns, leaf recomputed ─┐
//	audit.terms, by which entries are searched ─▶ sums of the terms, by range, against those that the records give
//	leaves ─▶ one reader, by index ─▶ tree, tiles, checkpoints, kept files ─────────────────────────┴▶ matcher, by id
//
// Everything is read in one snapshot of the database, so that a book which is written to meanwhile is whole all the same,
// by a login in the role bronzeward_auditor. Memory does not grow with the book: what the matcher could not
// pair nearby is looked up by id.
//
// What is found is told row by row (Finding): what is wrong, where, and in which columns, never what a record says. When
// the tree of leaves is not the one that was signed, the tile of 256 leaves that differs is named, and inside it the
// leaf that was replaced, the leaf that was deleted or the two that changed places, where putting it right gives the
// stored root again.
//
// The terms of audit.terms are compared as multisets, by sums under a key of the run's own; where a range's sums differ,
// the terms are looked up one by one. A term that belongs to an entry which is itself told of (changed, inserted, missing)
// is not told of besides, nor are those that a detached month leaves behind, whose records are not here to say.
//
// # Trust
//
// Nothing in the database is believed. Without a public key and a kept checkpoint, whoever owns the database and holds
// it against this verification can write another book that is whole in itself; with them they cannot. A row that was
// never sequenced is not proven: it waits in audit.unsequenced, for a second while the sequencer lives.
package verify
