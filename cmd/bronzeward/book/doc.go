// Package book is the commands that read the book: `bronzeward decisions`.
package book
