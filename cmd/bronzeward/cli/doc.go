// Package cli is what every command of the program needs: the flags all of them take, the
// console, output in the three formats and words for times, progress, questions, and the kinds
// of errors that decide the exit code. It reads no configuration and asks no server.
package cli
