package upstream

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"time"
)

// FileCredential reads one credential for every cluster from three PEM files, and reads them
// again when one of them changes. While a changed set does not fit together (a rotation half
// done) or is not fit to be shown, the last good one is used, until its certificate ends. Safe
// for concurrent use.
type FileCredential struct {
	// Cert, Key and CA are paths. All are required. CA may hold several certificates.
	Cert, Key, CA string
	// Logger is told once of each change that could not be taken; nil discards.
	Logger *slog.Logger

	mu     sync.Mutex
	seen   [3]fileMark // guarded by mu; of the last good read
	failed [3]fileMark // guarded by mu; of the last bad one
	held   *Credential // guarded by mu; nil before the first good read
}

type fileMark struct {
	size int64
	mod  time.Time
}

var _ CredentialSource = (*FileCredential)(nil)

// Clusters is any.
func (f *FileCredential) Clusters() []string { return []string{""} }

// Credential returns the current credential, which is the same for every cluster.
func (f *FileCredential) Credential(context.Context, string) (Credential, error) {
	f.mu.Lock()
	defer f.mu.Unlock()

	marks, err := f.marks()
	if err == nil && f.held != nil && marks == f.seen {
		return *f.held, nil
	}

	if err == nil {
		var c Credential

		if c, err = f.read(); err == nil {
			f.seen, f.held = marks, &c

			return c, nil
		}
	}

	if f.held != nil {
		if f.Logger != nil && marks != f.failed {
			f.Logger.Warn("the changed Talos credential cannot be used, the one before stays", slog.Any("error", err))
		}

		f.failed = marks

		return *f.held, nil
	}

	return Credential{}, err
}

func (f *FileCredential) marks() (m [3]fileMark, err error) {
	for i, path := range []string{f.Cert, f.Key, f.CA} {
		info, err := os.Stat(path)
		if err != nil {
			return m, missing(err)
		}

		m[i] = fileMark{size: info.Size(), mod: info.ModTime()}
	}

	return m, nil
}

func (f *FileCredential) read() (Credential, error) {
	var texts [3][]byte

	for i, path := range []string{f.Cert, f.Key, f.CA} {
		var err error
		if texts[i], err = os.ReadFile(path); err != nil {
			return Credential{}, missing(err)
		}
	}

	c, err := ParseCredential(texts[0], texts[1], texts[2])
	if err == nil {
		err = CheckCredential(c.Certificate, c.CAs, time.Now())
	}

	return c, err
}

// missing is a file that cannot be read: its path is for the log, not for callers.
func missing(err error) error { return &CredentialError{Reason: ReasonMalformed, Err: err} }
