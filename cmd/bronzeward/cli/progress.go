package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

const (
	// quietFor is how long something may take before a person is told what it is.
	quietFor = 2 * time.Second
	// redrawEvery is a person's second.
	redrawEvery = time.Second
)

// Progress is one line on a terminal that says what is waited for and since when. It is
// drawn again in place, without colours; on a terminal that cannot do that each text comes
// once. The zero value shows nothing. Safe for concurrent use.
type Progress struct {
	w    io.Writer
	dumb bool

	mu    sync.Mutex // guards all below
	text  string     // empty while nothing is waited for
	began time.Time
	shown string // what stands on the terminal
	stop  chan struct{}
	ended chan struct{}
}

// NewProgress shows nothing unless a person looks at a terminal and at tables.
func (g *Globals) NewProgress() *Progress {
	if g.terminal == nil || g.Output != "table" {
		return &Progress{}
	}
	return &Progress{w: plainWriter{g.terminal}, dumb: os.Getenv("TERM") == "dumb"}
}

// Begin says what is waited for, until the function it gives is called. Within another wait
// it changes nothing: the outer one says more.
func (p *Progress) Begin(text string) func() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.w == nil || p.text != "" {
		return func() {}
	}
	p.text, p.began, p.stop, p.ended = OneLine(text), time.Now(), make(chan struct{}), make(chan struct{})
	go p.run(p.stop, p.ended)
	return p.end
}

// Hide shows nothing until the function it gives is called.
func (p *Progress) Hide() func() {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.w
	p.w = nil
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.w = before
	}
}

// Note changes what is said.
func (p *Progress) Note(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.text != "" {
		p.text = OneLine(text)
	}
}

func (p *Progress) run(stop, ended chan struct{}) {
	defer close(ended)
	tick := time.NewTicker(redrawEvery)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
			p.draw()
		}
	}
}

func (p *Progress) draw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	passed := time.Since(p.began)
	switch {
	case passed < quietFor:
	case p.dumb:
		if p.shown != p.text {
			fmt.Fprintf(p.w, "%s …\n", p.text)
			p.shown = p.text
		}
	default:
		line := Clip(fmt.Sprintf("%s … %s", p.text, passed.Round(time.Second)), p.width())
		p.erase()
		_, _ = io.WriteString(p.w, line)
		p.shown = line
	}
}

// width is how long a line may be: one that is wrapped could not be erased.
func (p *Progress) width() int {
	if file, ok := p.w.(plainWriter).w.(*os.File); ok {
		if columns, _, err := term.GetSize(int(file.Fd())); err == nil && columns > 1 {
			return columns - 1
		}
	}
	return 79
}

// erase clears the line; the writer lets no other control character through.
func (p *Progress) erase() {
	if p.shown != "" && !p.dumb {
		_, _ = io.WriteString(p.w.(plainWriter).w, "\r\x1b[K")
	}
}

func (p *Progress) end() {
	p.mu.Lock()
	stop, ended := p.stop, p.ended
	p.text = ""
	p.mu.Unlock()
	close(stop)
	<-ended
	p.mu.Lock()
	defer p.mu.Unlock()
	p.erase()
	p.shown = ""
}

// Bar is how far something has come, for Progress.Note.
func Bar(what string, n, of int64) string {
	const wide = 20
	if of <= 0 {
		return fmt.Sprintf("%s: %d", what, n)
	}
	n = min(n, of)
	full := int(n * wide / of)
	return fmt.Sprintf("%s [%s%s] %d %% (%d of %d)", what, strings.Repeat("#", full), strings.Repeat(" ", wide-full), n*100/of, n, of)
}
