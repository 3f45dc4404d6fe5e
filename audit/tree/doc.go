// Package tree proves the book: it puts every row of the book into a Merkle tree, signs the tree's head, and shows to
// whoever has the public key that a record stands in it.
package tree
