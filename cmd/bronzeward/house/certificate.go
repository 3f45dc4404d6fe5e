package house

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// lookEvery is how often certificate files are looked at, at most.
const lookEvery = time.Second

// fileCertificate serves a certificate from files and reads them again when they change.
// A pair that cannot be read leaves the last good one in place. Safe for concurrent use.
type fileCertificate struct {
	certificate, key string
	log              *slog.Logger

	mu      sync.Mutex // guards all below
	pair    *tls.Certificate
	stamp   string
	checked time.Time
}

// ServerCertificate gives the current pair.
func (f *fileCertificate) ServerCertificate() (*tls.Certificate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pair != nil && time.Since(f.checked) < lookEvery {
		return f.pair, nil
	}
	f.checked = time.Now()
	stamp, err := stampOf(f.certificate, f.key)
	if err == nil && stamp == f.stamp {
		return f.pair, nil
	}
	if err == nil {
		var pair tls.Certificate
		if pair, err = tls.LoadX509KeyPair(f.certificate, f.key); err == nil {
			f.pair, f.stamp = &pair, stamp
			return f.pair, nil
		}
	}
	if f.pair == nil {
		return nil, err
	}
	f.log.Warn("the server certificate cannot be read again; the old one is served", slog.Any("cause", err))
	return f.pair, nil
}

// stampOf tells whether files have changed.
func stampOf(paths ...string) (string, error) {
	out := ""
	for _, p := range paths {
		info, err := os.Stat(p)
		if err != nil {
			return "", err
		}
		out += fmt.Sprint(info.ModTime().UnixNano(), " ", info.Size(), " ")
	}
	return out, nil
}
