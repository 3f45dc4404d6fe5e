package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/google/uuid"

	"bronzeward/audit"
	"bronzeward/gateway/httpapi/api"
)

// Every problem document is made in this file (RFC 9457). Their type is about:blank: the
// title is the status in words, and code is what tells problems apart.

const (
	jsonType    = "application/json"
	problemType = "application/problem+json"
)

// problem is a refusal on its way to the client.
type problem struct {
	status int
	code   string
	// detail and hint are sentences of ours; strangers' texts in them are escaped when the
	// document is made.
	detail, hint string
	also         []api.Finding
	// entry is set once the refusal is in the book. unwritten says that it stays out of it.
	entry     audit.Receipt
	unwritten bool
	// header goes with the answer.
	header http.Header
	// cause is for the log only.
	cause error
}

// Error is the code and the sentence.
func (p *problem) Error() string { return p.code + ": " + p.detail }

// document is what the client reads.
func (p *problem) document(r *http.Request) api.Problem {
	doc := api.Problem{
		Type: api.AboutBlank, Title: http.StatusText(p.status), Status: p.status,
		Detail: plain(p.detail, mostDetail), Code: p.code, Instance: plain(r.URL.EscapedPath(), mostDetail),
	}
	if p.entry.ID != uuid.Nil {
		id := p.entry.ID.String()
		doc.Decision = &id
	}
	if p.hint != "" {
		hint := plain(p.hint, mostDetail)
		doc.Hint = &hint
	}
	for _, one := range p.also {
		if doc.Also == nil {
			doc.Also = &[]api.Finding{}
		}
		*doc.Also = append(*doc.Also, api.Finding{Code: plain(one.Code, mostQuoted), Message: plain(one.Message, mostDetail)})
	}
	return doc
}

// kept is the answer before it is sent.
func (p *problem) kept(r *http.Request) *keptAnswer {
	k := &keptAnswer{status: p.status, header: http.Header{}}
	for name, values := range p.header {
		k.header[name] = values
	}
	k.header.Set("Content-Type", problemType)
	_ = json.NewEncoder(&k.body).Encode(p.document(r)) // strings and numbers always encode
	return k
}

// write answers a request that leaves no entry.
func (p *problem) write(w http.ResponseWriter, r *http.Request) {
	k := p.kept(r)
	for name, values := range k.header {
		w.Header()[name] = values
	}
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(k.status)
	_, _ = w.Write(k.body.Bytes()) // the client has gone away; nobody is left to tell
}

// malformed is a body or parameter that is not what it must be; it says where.
func malformed(format string, args ...any) *problem {
	return &problem{status: http.StatusBadRequest, code: "BW-HTTP-400", detail: fmt.Sprintf(format, args...), hint: "see /openapi.yaml"}
}

func noPath() *problem {
	return &problem{status: http.StatusNotFound, code: "BW-HTTP-404", detail: "there is no such path", hint: "see /openapi.yaml"}
}

func otherMethod(allowed string) *problem {
	return &problem{
		status: http.StatusMethodNotAllowed, code: "BW-HTTP-405", detail: "this path takes " + allowed + " only",
		header: http.Header{"Allow": {allowed}},
	}
}

func tooLarge(most int64) *problem {
	return &problem{
		status: http.StatusRequestEntityTooLarge, code: "BW-HTTP-413", detail: fmt.Sprintf("the body of this request has at most %d bytes", most),
		hint: "send a smaller one: /openapi.yaml has what it is made of", header: http.Header{"Connection": {"close"}},
	}
}

func otherType(detail, wanted string) *problem {
	return &problem{status: http.StatusUnsupportedMediaType, code: "BW-HTTP-415", detail: detail, hint: "Content-Type: " + wanted}
}

// noBook says that nothing could be written down, so nothing was done.
func noBook() *problem {
	return &problem{
		status: http.StatusServiceUnavailable, code: "BW-BOOK-001", detail: "the decision could not be written down, so nothing was done",
		hint: "try again", unwritten: true, header: retryAfter(1),
	}
}

func retryAfter(seconds int) http.Header { return http.Header{"Retry-After": {strconv.Itoa(seconds)}} }
