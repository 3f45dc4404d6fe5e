package httpapi

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"bronzeward/audit"
	"bronzeward/gateway/identity"
	"bronzeward/policy"
)

const (
	// DecisionHeader carries the id of the entry a request left in the book.
	DecisionHeader = "Bronzeward-Decision"
	// LeafHeader carries the leaf hash of that entry, in hexadecimal digits. It is missing where
	// it is not known whether the entry was written.
	LeafHeader = "Bronzeward-Leaf"
)

// The acts a request stands as in the book that are nobody's own.
const (
	actChangesRead     = "changes.read"
	actMachinesRead    = "machines.read"
	actClustersRead    = "clusters.read"
	actAttemptsRead    = "attempts.read"
	actDriftRead       = "drift.read"
	actIdentitiesRead  = "identities.read"
	actNoticesRead     = "notices.read"
	actDigestKeysRead  = "digest-keys.read"
	actPolicyRead      = "policy.read"
	actOwn             = "decisions.own"
	actDecisionsRead   = "decisions.read"
	actDecisionsFollow = "decisions.follow"
	actProofsRead      = "proofs.read"
	actNone            = "http.request" // a path or method there is not
)

const (
	// recordWithin bounds writing down a refusal whose client may have gone away.
	recordWithin = 10 * time.Second
	// answerWithin bounds writing an answer, from when it is ready.
	answerWithin = 30 * time.Second
	// actWithin bounds an act: the longest transport deadline is ten minutes, and the node is
	// read before and after.
	actWithin = 15 * time.Minute
	// restWithin bounds how long the rest of a body that nobody wants may take to arrive.
	restWithin = 5 * time.Second
)

// handler does what is asked and says how to answer. An error is answered as the problem
// that problemOf makes of it, and recorded when it left no entry.
type handler func(*call) (answer, error)

// answer writes status, headers and body: the Visit method of one of package api's
// response objects.
type answer func(http.ResponseWriter) error

// call is one request on its way. One goroutine owns it, but for decided.
type call struct {
	*door
	w       http.ResponseWriter
	r       *http.Request
	ctx     context.Context //nolint:containedctx // the call is its context's owner
	route   *route
	id      string // of the path, as it was sent
	started time.Time
	by      identity.Actor
	entry   *leftEntry
	judged  bool          // as a reading act, and allowed
	header  http.Header   // of the answer, besides the handler's own
	text    []byte        // the body, once it was read
	unread  bool          // a body was announced and nobody has begun to read it
	wait    time.Duration // how long the request may wait for something to change
	release func()        // of what the request holds, at its end
	attrs   []slog.Attr
}

// serve is the way of every request that needs a credential.
func (d *door) serve(w http.ResponseWriter, r *http.Request, rt *route, id string) {
	c := &call{
		door: d, w: w, r: r, route: rt, id: id, started: time.Now(), entry: &leftEntry{}, header: http.Header{},
		by: identity.Actor{Address: addressOf(r.RemoteAddr)}, release: func() {}, unread: r.ContentLength != 0,
	}
	defer func() { c.release() }()
	c.ctx = context.WithValue(r.Context(), entryKey{}, c.entry)
	a, err := c.do()
	kept := &keptAnswer{header: http.Header{}}
	if err == nil {
		err = a(kept)
	}
	code := ""
	if err != nil {
		p := c.refused(err)
		code, kept, c.header = p.code, p.kept(r), nil
	}
	c.finish(kept, code)
}

// do proves who asks, keeps limits, has the act judged as far as it can be without its body,
// and runs the handler.
func (c *call) do() (a answer, err error) {
	defer func() {
		if p := recover(); p != nil {
			c.note(slog.String("panic", policy.PanicText(p)), slog.String("stack", string(debug.Stack())))
			a, err = nil, errors.New("a handler panicked")
		}
	}()
	if !c.Limiter.Allow(c.by.Address, identity.Caller{}) {
		return nil, tooManyOfAddress()
	}
	if err := c.identify(); err != nil {
		return nil, err
	}
	if !c.Limiter.Allow(c.by.Address, c.by.Caller) {
		return nil, c.tooMany("too many requests of this caller (limits.calls_per_second)", "calls")
	}
	if err := c.holdAll(); err != nil {
		return nil, err
	}
	if err := c.accepts(); err != nil {
		return nil, err
	}
	// The server's own deadline is for requests that are answered at once.
	_ = http.NewResponseController(c.w).SetWriteDeadline(time.Now().Add(actWithin))
	if c.route.changes() {
		if err := c.Book.May(c.ctx, c.by, c.route.first(), c.subject()); err != nil {
			return nil, err
		}
	}
	return c.route.handle(c)
}

// refused is the problem an error is, with its entry: one that left none is written down
// now. When that cannot be done, the answer is that the book is away (I2). A reading act's
// entry stands for whatever came of reading.
func (c *call) refused(err error) *problem {
	p := *problemOf(err)
	if p.cause != nil {
		c.note(slog.Any("cause", p.cause))
	}
	if p.entry.ID == uuid.Nil && c.judged {
		p.entry = c.entry.get()
	}
	if p.entry.ID != uuid.Nil || p.unwritten {
		c.entry.set(p.entry)
		return &p
	}
	// The client may be gone; what it asked for is written down all the same.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), recordWithin)
	defer cancel()
	p.entry, err = c.Book.Record(ctx, c.by, c.route.act, c.subject(), p.code, plain(unquoted(p.detail), mostDetail))
	if err != nil {
		c.note(slog.Any("book", err), slog.String("unwritten", p.code))
		c.entry.set(audit.Receipt{})
		return noBook()
	}
	c.entry.set(p.entry)
	return &p
}

// finish sends the answer and prints the request's one log line.
func (c *call) finish(kept *keptAnswer, code string) {
	h := c.w.Header()
	for _, from := range []http.Header{kept.header, c.header} {
		for name, values := range from {
			h[name] = values
		}
	}
	h.Del(DecisionHeader)
	h.Del(LeafHeader)
	if entry := c.entry.get(); entry.ID != uuid.Nil {
		h.Set(DecisionHeader, entry.ID.String())
		if entry.Leaf != ([32]byte{}) {
			h.Set(LeafHeader, hex.EncodeToString(entry.Leaf[:]))
		}
		c.note(slog.String("decision", entry.ID.String()))
	}
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if kept.status != http.StatusNotModified {
		h.Set("Content-Length", strconv.Itoa(kept.body.Len()))
	}
	_ = http.NewResponseController(c.w).SetWriteDeadline(time.Now().Add(answerWithin))
	if c.unread {
		// The server reads what is left of a small body before it sends the answer.
		_ = http.NewResponseController(c.w).SetReadDeadline(time.Now().Add(restWithin))
	}
	c.w.WriteHeader(kept.status)
	_, err := c.w.Write(kept.body.Bytes())

	attrs := append([]slog.Attr{
		slog.String("method", c.r.Method), slog.String("route", c.route.path), slog.String("id", quoted(name(c.id))), slog.Int("status", kept.status),
		slog.String("subject", c.by.Caller.Subject), slog.String("issuer", c.by.Caller.Issuer),
		slog.String("client", c.by.Address), slog.Duration("took", time.Since(c.started)),
	}, c.attrs...)
	if code != "" {
		attrs = append(attrs, slog.String("code", code))
	}
	if err != nil {
		attrs = append(attrs, slog.Any("unsent", err))
	}
	level := slog.LevelInfo
	if kept.status >= http.StatusInternalServerError {
		level = slog.LevelWarn
	}
	c.Logger.LogAttrs(context.WithoutCancel(c.ctx), level, "request", attrs...)
}

// note adds to the one log line of this request.
func (c *call) note(attrs ...slog.Attr) { c.attrs = append(c.attrs, attrs...) }

// subject is what the request is about, as it goes into the book.
func (c *call) subject() string {
	if c.route.act == actNone {
		segments := strings.Split(c.r.URL.EscapedPath(), "/")
		for i, s := range segments {
			segments[i] = name(s)
		}
		return plain(c.r.Method+" "+strings.Join(segments, "/"), mostQuoted)
	}
	if wholeRevision.MatchString(c.id) {
		return c.id[:shortRevision] // the whole of it has the look of a secret, and so many digits name a law
	}
	return plain(name(c.id), mostQuoted)
}

// refusing is a handler of what is no route: it is asked for a credential all the same.
func (d *door) refusing(p *problem) http.Handler {
	rt := &route{path: "none", act: actNone, handle: func(*call) (answer, error) { return nil, p }}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { d.serve(w, r, rt, "") })
}

// addressOf is a peer's IP without port and zone, as it goes into the book.
func addressOf(remote string) string {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return remote
	}
	host, _, _ = strings.Cut(host, "%")
	return host
}

// keptAnswer is an answer before it is sent: it may be kept with an Idempotency-Key, or
// compared with what the client has.
type keptAnswer struct {
	status int
	header http.Header
	body   bytes.Buffer
}

func (k *keptAnswer) Header() http.Header         { return k.header }
func (k *keptAnswer) WriteHeader(status int)      { k.status = status }
func (k *keptAnswer) Write(p []byte) (int, error) { return k.body.Write(p) }
