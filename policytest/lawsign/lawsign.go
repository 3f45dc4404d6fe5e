// Package lawsign signs laws in tests as `opa sign --bundle` does, with OPA's own code.
package lawsign

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/open-policy-agent/opa/v1/bundle"
	"github.com/open-policy-agent/opa/v1/util"
)

// Algorithm is what the keys of this package sign by.
const Algorithm = "ES256"

// Key is a pair whose private half signs laws.
type Key struct {
	// Private and Public are PEM.
	Private, Public string
}

// New makes a key.
func New() (Key, error) {
	pair, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Key{}, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(pair)
	if err != nil {
		return Key{}, err
	}
	public, err := x509.MarshalPKIXPublicKey(&pair.PublicKey)
	if err != nil {
		return Key{}, err
	}
	return Key{
		Private: string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})),
		Public:  string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})),
	}, nil
}

// Number writes the manifest of a law with its counter.
func Number(dir string, counter int64) error {
	text := fmt.Sprintf("{\"roots\": [\"bronzeward\"], \"metadata\": {\"bronzeward\": {\"counter\": %d}}}\n", counter)
	return os.WriteFile(filepath.Join(dir, ".manifest"), []byte(text), 0o600)
}

// Sign writes .signatures.json into a directory, over all its files, as `opa sign --bundle` does.
func (k Key) Sign(dir string) error {
	files, err := hashed(dir)
	if err != nil {
		return err
	}
	token, err := bundle.GenerateSignedToken(files, bundle.NewSigningConfig(k.Private, Algorithm, ""), "")
	if err != nil {
		return err
	}
	raw, err := json.MarshalIndent(map[string]any{"signatures": []string{token}}, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, ".signatures.json"), raw, 0o600)
}

// hashed are the files of a directory with their hashes, as OPA reads and hashes them.
func hashed(dir string) ([]bundle.FileInfo, error) {
	hash, err := bundle.NewSignatureHasher(bundle.SHA256)
	if err != nil {
		return nil, err
	}
	var out []bundle.FileInfo
	for loader := bundle.NewDirectoryLoader(dir); ; {
		f, err := loader.NextFile()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		if bundle.IsSignaturesFile(f.Path()) {
			continue
		}
		var body bytes.Buffer
		_, err = f.Read(&body, bundle.DefaultSizeLimitBytes+1)
		f.Close()
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		var value any = body.Bytes()
		if bundle.IsStructuredDoc(f.Path()) {
			if err := util.Unmarshal(body.Bytes(), &value); err != nil {
				return nil, err
			}
		}
		sum, err := hash.HashFile(value)
		if err != nil {
			return nil, err
		}
		out = append(out, bundle.NewFile(strings.TrimPrefix(f.URL(), "/"), hex.EncodeToString(sum), "SHA-256"))
	}
}
