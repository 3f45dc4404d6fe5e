package gateway

import (
	"context"
	"errors"
	"slices"

	"bronzeward/gateway/control"
)

// How it is answered that the keeper of keys did not do something.

// passes are the reason classes of what may be over at the next try, for all that the caller
// can do. The others, and one that nobody knows, need somebody's hand.
var passes = []string{"sealed", "unreachable", "slow", "failing", "cancelled"}

// keysAway is why the keeper of keys did not do something, in the words of an answer.
type keysAway struct {
	// class is one word, for the entry; empty when the error does not offer one.
	class string
	// why is a sentence for the caller, without what was being done; it ends with the class.
	why string
	// passing is true for what may be over at the next try.
	passing bool
}

// keysAwayOf reads an error of a keeper of keys. Its sentence for callers is shown; its own text
// is when it has a reason class alone, and then holds no secret; else it is for the log.
func keysAwayOf(err error) keysAway {
	a := keysAway{class: classOf(err), why: "the gateway's log says why", passing: errors.Is(err, control.ErrUnavailable)}
	var (
		caller forCaller
		known  reasonClass
	)
	switch {
	case errors.As(err, &caller):
		a.why = cut(oneLine(caller.ForCaller()), mostSaid)
	case errors.As(err, &known):
		a.why = cut(oneLine(known.Error()), mostSaid)
	case errors.Is(err, context.DeadlineExceeded):
		a.class, a.why = "slow", "it took too long"
	case errors.Is(err, context.Canceled):
		a.class, a.why = "cancelled", "the request ended"
	}
	if a.class != "" {
		a.why += " (" + a.class + ")"
		a.passing = slices.Contains(passes, a.class)
	}
	return a
}

// next is what the caller can do, after what they know already.
func (a keysAway) next() string {
	switch {
	case a.passing:
		return "try again"
	case a.class != "":
		return "trying again does not help: tell who runs OpenBao"
	}
	return "trying again does not help: tell who runs the gateway"
}
