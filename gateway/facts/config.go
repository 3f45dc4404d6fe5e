package facts

import (
	"context"
	"errors"
	"fmt"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/siderolabs/talos/pkg/machinery/config/config"
	"github.com/siderolabs/talos/pkg/machinery/config/configloader"
	"github.com/siderolabs/talos/pkg/machinery/config/types/v1alpha1"

	"bronzeward/policy"
)

// MaxChanges is how many differences a policy is given; more is a Problem.
const MaxChanges = 10_000

// ReadConfig is Reader.Read without a cache, for a single use.
func ReadConfig(ctx context.Context, asked, active, persistent []byte, d Digester) *policy.Config {
	return (&Reader{digester: d}).Read(ctx, asked, active, persistent)
}

// ReaderConfig configures a Reader.
type ReaderConfig struct {
	// Digester makes digests and fingerprints. Required.
	Digester Digester
	// Cache is how many parsed configurations are kept in memory by digest; zero keeps
	// none. A kept one holds its machine's secrets, as the process does anyway.
	Cache int
}

// Validate returns all problems of the configuration joined.
func (c ReaderConfig) Validate() error {
	var errs []error
	if c.Digester == nil {
		errs = append(errs, errors.New("a Digester is required"))
	}
	if c.Cache < 0 {
		errs = append(errs, errors.New("the Cache is negative"))
	}
	return errors.Join(errs...)
}

// Reader reads configurations into Facts. It is safe for concurrent use.
type Reader struct {
	digester Digester
	cache    *lru.Cache[string, *parsed] // nil without a cache
}

// NewReader makes a Reader; it does no I/O.
func NewReader(c ReaderConfig) (*Reader, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("making configuration reader: %w", err)
	}
	r := &Reader{digester: c.Digester}
	if c.Cache > 0 {
		cache, err := lru.New[string, *parsed](c.Cache)
		if err != nil {
			return nil, fmt.Errorf("making configuration reader: %w", err)
		}
		r.cache = cache
	}
	return r, nil
}

// parsed is a configuration machinery has read. It is never written.
type parsed struct {
	documents []config.Document
	provider  interface {
		Documents() []config.Document
	}
	main *v1alpha1.Config
}

// Read says what the asked configuration would change on a machine whose active and
// persistent configurations are given. It never fails: whatever cannot be read is a
// Problem, and a configuration with Problems must not be let through. Panics of
// machinery are contained. When ctx ends the reading stops with a Problem.
//
// The digests are over the texts as they are. Problems hold no value of any text.
func (r *Reader) Read(ctx context.Context, asked, active, persistent []byte) (out *policy.Config) {
	d := pin(r.digester)
	out = &policy.Config{
		Digest:      d.Digest(asked),
		Base:        d.Digest(active),
		Persistent:  d.Digest(persistent),
		Identical:   SameText(asked, active),
		Problems:    []policy.Problem{},
		Documents:   []policy.Document{},
		Changes:     []policy.ConfigChange{},
		Collections: []policy.Collection{},
	}
	defer func() {
		if recover() != nil {
			out.Changes, out.ChangesKnown = []policy.ConfigChange{}, false
			out.Problems = append(out.Problems, policy.Problem{Kind: "unsafe", Message: "reading the configuration stopped without a result"})
		}
	}()

	next, problems := r.loadAsked(ctx, asked, out.Digest)
	if len(problems) > 0 {
		out.Problems = problems
		out.Collections = estimate(asked)
		return out
	}
	current, err := r.loadActive(ctx, active, out.Base)
	view := viewer{digester: d, known: knownOf(next, current)}
	out.Documents = documentsOf(view, next.documents)
	out.Collections = collectionsOf(next.documents)
	if next.main == nil {
		out.Problems = append(out.Problems, policy.Problem{Kind: "missing", Message: "the configuration has no v1alpha1 document"})
	}
	out.Problems = append(out.Problems, validate(next)...)

	if err != nil {
		out.Problems = append(out.Problems, policy.Problem{Kind: "invalid", Message: "the machine's active configuration cannot be compared with: " + err.Error()})
		return out
	}
	changes, err := changesOf(ctx, view, current, next)
	if err != nil {
		out.Problems = append(out.Problems, policy.Problem{Kind: "too-large", Message: err.Error()})
	}
	out.Changes, out.ChangesKnown = changes, err == nil
	return out
}

// load bounds and parses a text.
func (r *Reader) load(ctx context.Context, text []byte) (*parsed, []policy.Problem) {
	if ctx.Err() != nil {
		return nil, problem("too-large", 0, "reading the configuration took longer than the call allows")
	}
	if problems := scan(ctx, text); len(problems) > 0 {
		return nil, problems
	}
	provider, err := configloader.NewFromBytes(text)
	if err != nil {
		return nil, []policy.Problem{decodeProblem(text, err)}
	}
	out := &parsed{documents: provider.Documents(), provider: provider}
	for _, document := range out.documents {
		if main, ok := document.(*v1alpha1.Config); ok {
			out.main = main
		}
	}
	return out, nil
}

// maxCached is the largest text in bytes whose parsed form is kept.
const maxCached = 256 << 10

// loadActive parses the machine's own configuration, or finds it parsed.
func (r *Reader) loadActive(ctx context.Context, text []byte, digest string) (*parsed, error) {
	if known, ok := r.remembered(digest); ok {
		return known, nil
	}
	out, problems := r.load(ctx, text)
	if len(problems) > 0 {
		return nil, errors.New(problems[0].Message)
	}
	if out.main == nil {
		return nil, errors.New("it has no v1alpha1 document")
	}
	r.remember(digest, text, out)
	return out, nil
}

// loadAsked parses a text that is asked for, or finds it parsed: the dry run before an
// apply asks for the same, and what is applied is the active one of the next.
func (r *Reader) loadAsked(ctx context.Context, text []byte, digest string) (*parsed, []policy.Problem) {
	if known, ok := r.remembered(digest); ok {
		return known, nil
	}
	out, problems := r.load(ctx, text)
	if len(problems) == 0 && out.main != nil {
		r.remember(digest, text, out)
	}
	return out, problems
}

func (r *Reader) remembered(digest string) (*parsed, bool) {
	if r.cache == nil {
		return nil, false
	}
	return r.cache.Get(digest)
}

func (r *Reader) remember(digest string, text []byte, out *parsed) {
	if r.cache != nil && len(text) <= maxCached {
		r.cache.Add(digest, out)
	}
}

// runningMetal is the strictest machine an apply through the gateway can meet: a
// running one is installed, and a container skips checks that metal makes.
type runningMetal struct{}

func (runningMetal) String() string        { return "metal" }
func (runningMetal) RequiresInstall() bool { return false }
func (runningMetal) InContainer() bool     { return false }

// documentsOf names the documents.
func documentsOf(view viewer, documents []config.Document) []policy.Document {
	out := make([]policy.Document, 0, len(documents))
	for _, document := range documents {
		named := policy.Document{APIVersion: document.APIVersion(), Kind: document.Kind()}
		if _, ok := document.(*v1alpha1.Config); ok {
			named.APIVersion, named.Kind = "v1alpha1", "v1alpha1"
		}
		if n, ok := document.(config.NamedDocument); ok {
			named.Name = view.key(n.Name())
		}
		out = append(out, named)
	}
	return out
}

// labelOf is ConfigChange.Document.
func labelOf(view viewer, document config.Document) string {
	if _, ok := document.(*v1alpha1.Config); ok {
		return "v1alpha1"
	}
	if named, ok := document.(config.NamedDocument); ok {
		return document.Kind() + "/" + view.key(named.Name())
	}
	return document.Kind()
}
