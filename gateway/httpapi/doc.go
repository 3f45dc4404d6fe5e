// Package httpapi is the HTTP door: what people ask of Bronzeward itself, as openapi.yaml describes it.
//
// The way of one request, in door.go:
//
//	limit of the address ─▶ who? ─▶ limits of the caller ─▶ Accept ─▶ may they? ─▶ its handler
//	─▶ entry's id, status, body, one log line
//
// May they is asked of what changes something, before its body is read and anything is looked up or waited for: nobody
// without a role learns what there is, or keeps others waiting. A handler asks the book for a reading act, or an act for
// itself; both write the entry. What is refused before either is written down by Book.Record, and a caller who proved
// nothing, or asks for too much, by Book.Stranger: when that cannot be done the answer is 503, whatever it would have
// been. Health, readiness, metrics and openapi.yaml ask for no credential and leave no entry.
//
//	routes.go           the route table, the only file that knows mux
//	openapi/*.yaml      what openapi.yaml, the types in api and the client in apiclient are made of
//	limits.go           what one person may have in flight
//	body.go members.go  strict reading of a request's JSON
//	problem.go cause.go problem documents, and which error is which problem
//	once.go             Idempotency-Key; the keys are kept by the control store, in the transaction of the effect
//	wait.go looks.go    ETag, If-None-Match, Prefer: wait; those who wait for the same thing look together
//
// Trust: nothing a client sends is trusted. TLS is the server's matter; the certificate in r.TLS is judged by Identifier.
package httpapi
