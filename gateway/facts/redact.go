package facts

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/siderolabs/talos/pkg/machinery/config/container"
	"github.com/siderolabs/talos/pkg/machinery/config/encoder"
	"github.com/siderolabs/talos/pkg/machinery/textdiff"

	"bronzeward/policy"
)

// hiddenText stands for words of the node that cannot be shown safely.
const hiddenText = "(the node's words are not shown: they cannot be told from secrets; an operator with the right role can repeat the call)"

// Redactor takes secrets out of what a node answers to an apply: dry-run diffs and
// error texts, both of which quote the configuration in clear.
//
// A diff is never filtered. It is made anew from both configurations with every secret
// replaced by its fingerprint, so that it shows that a secret changed and not to what.
// Words around it lose every known secret in every usual encoding. When a configuration
// cannot be read, or something secret is left for whatever reason, the words are not
// shown at all.
//
// A Redactor reads the configurations when it is first asked for a text, and once. It
// is safe for concurrent use.
type Redactor struct {
	once          sync.Once
	digester      Digester
	asked, active []byte

	// What follows is written by once and then only read.
	secrets *secrets
	// clear and hidden are the diffs of both configurations as the node writes it and
	// with secrets replaced.
	clear, hidden string
	changes       []policy.ConfigChange
	err           error
}

// NewRedactor prepares for the answers to one apply: asked is the configuration sent,
// active the one it met; neither may be changed afterwards. It never fails; a Redactor
// that cannot read one of them shows nothing.
func NewRedactor(d Digester, asked, active []byte) *Redactor {
	return &Redactor{digester: pin(d), asked: asked, active: active, secrets: &secrets{}}
}

func (r *Redactor) ready() {
	r.once.Do(func() {
		defer func() {
			if recover() != nil {
				r.err = errors.New("reading the configurations stopped without a result")
			}
		}()
		r.err = errors.New("reading the configurations did not end")
		r.err = r.prepare(r.digester, r.asked, r.active)
		r.asked, r.active = nil, nil
	})
}

func (r *Redactor) prepare(d Digester, asked, active []byte) error {
	reader := &Reader{digester: d}
	ctx := context.Background()
	next, problems := reader.load(ctx, asked)
	if len(problems) > 0 {
		return errors.New(problems[0].Message)
	}
	current, problems := reader.load(ctx, active)
	if len(problems) > 0 {
		return errors.New(problems[0].Message)
	}
	view := viewer{digester: d, known: knownOf(next, current)}
	changes, err := changesOf(ctx, view, current, next)
	if err != nil {
		return err
	}
	r.changes = changes

	// Both are encoded before and after masking, which writes into them.
	before, err := encodeClear(current)
	if err != nil {
		return err
	}
	after, err := encodeClear(next)
	if err != nil {
		return err
	}
	if r.clear, err = textdiff.Diff(before, after); err != nil {
		return err
	}
	hiddenBefore, err := encodeHidden(view, current, r.secrets)
	if err != nil {
		return err
	}
	hiddenAfter, err := encodeHidden(view, next, r.secrets)
	if err != nil {
		return err
	}
	if r.hidden, err = textdiff.Diff(hiddenBefore, hiddenAfter); err != nil {
		return err
	}
	if err := errors.Join(r.secrets.addComments(asked), r.secrets.addComments(active)); err != nil {
		return err
	}
	return r.secrets.finish()
}

// Err says why the Redactor shows little, nil when it does not; no value is in it.
func (r *Redactor) Err() error {
	r.ready()
	return r.err
}

// maxWords is how many bytes of a node's own words are looked through; of more nothing is
// shown. Diffs do not count: none of the node's is shown.
const maxWords = 64 << 10

// Text is a node's words without secrets: an error message, or the mode details of an
// answer. It is empty for an empty text. Characters that nobody sees, or that turn the
// direction of text, are written as escapes.
func (r *Redactor) Text(text string) string {
	if text == "" {
		return ""
	}
	if r.ready(); r.err != nil {
		return hiddenText + "\n(" + r.err.Error() + ")"
	}
	head, kind := cutDiff(text)
	if len(head) > maxWords {
		return hiddenText
	}
	out := r.secrets.scrub(head)
	switch kind {
	case noDiff:
	case wholeDiff:
		out += "Config diff:\n\n" + r.whole(text)
	case refusedDiff:
		out += "diff:\n" + r.paths(func(c policy.ConfigChange) bool { return c.Reboot })
	case otherDiff:
		out += hiddenText + "\n" + r.paths(func(policy.ConfigChange) bool { return true })
	}
	if r.secrets.left(out) {
		return hiddenText
	}
	return visibleText(out)
}

// whole is the dry-run diff. The node's own must be the one computed here, or the
// masked one would tell of something else than the node did.
func (r *Redactor) whole(text string) string {
	_, own, _ := strings.Cut(text, "Config diff:\n\n")
	if own == "No changes." && r.clear == "" {
		return own
	}
	if strings.TrimRight(own, "\n") != strings.TrimRight(r.clear, "\n") {
		return "(the node's diff is not shown: it is not the one between the configuration asked for and the one read before)\n" +
			r.paths(func(policy.ConfigChange) bool { return true })
	}
	if r.hidden == "" {
		return "(only what is hidden changes)\n" + r.paths(func(policy.ConfigChange) bool { return true })
	}
	return r.secrets.scrub(r.hidden)
}

// shownPaths is how many changed paths are listed.
const shownPaths = 100

// paths lists changes as the policy sees them.
func (r *Redactor) paths(want func(policy.ConfigChange) bool) string {
	var out strings.Builder
	n := 0
	for _, c := range r.changes {
		if !want(c) {
			continue
		}
		if n++; n > shownPaths {
			out.WriteString("…\n")
			break
		}
		writeChange(&out, c)
	}
	return out.String()
}

// encodeClear writes a configuration as the node does before it compares.
func encodeClear(p *parsed) (string, error) {
	whole, err := container.New(p.documents...)
	if err != nil {
		return "", errors.New("the documents of the configuration do not go together")
	}
	text, err := whole.EncodeString(encoder.WithComments(encoder.CommentsDisabled))
	if err != nil {
		return "", errors.New("the configuration cannot be written")
	}
	return text, nil
}

// encodeHidden masks a configuration in place and writes it.
func encodeHidden(view viewer, p *parsed, s *secrets) (string, error) {
	m := masker{view: view, sink: s}
	for _, document := range p.documents {
		m.document(document)
	}
	if m.err != nil {
		return "", m.err
	}
	text, err := encodeClear(p)
	if err != nil {
		return "", err
	}
	return m.readable(text), nil
}

// RedactConfig is a configuration with every secret replaced by its fingerprint and
// without comments, for showing. Its error holds no value of the text.
func RedactConfig(text []byte, d Digester) (out string, err error) {
	defer func() {
		if recover() != nil {
			out, err = "", errors.New("redacting configuration: reading stopped without a result")
		}
	}()
	d = pin(d)
	p, problems := (&Reader{digester: d}).load(context.Background(), text)
	if len(problems) > 0 {
		return "", errors.New("redacting configuration: " + problems[0].Message)
	}
	s := &secrets{}
	hidden, err := encodeHidden(viewer{digester: d, known: knownOf(p)}, p, s)
	if err != nil {
		return "", err
	}
	if err := s.finish(); err != nil {
		return "", err
	}
	hidden = s.scrub(hidden)
	if s.left(hidden) {
		return "", errors.New("redacting configuration: a secret was left")
	}
	return visibleText(hidden), nil
}
