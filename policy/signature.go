package policy

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	opa "github.com/open-policy-agent/opa/v1/bundle"
	"github.com/open-policy-agent/opa/v1/keys"
)

// The files of a signed bundle, at its top. They prove the law and are no part of its revision.
const (
	SignaturesFile = ".signatures.json"
	ManifestFile   = ".manifest"
)

// Proof is what proves a bundle: OPA's signature over its files, and its manifest, verbatim. Either may be empty.
type Proof struct {
	Signatures []byte
	Manifest   []byte
}

// Counter is what the manifest says; zero when it says none. It is only a claim until the proof is verified.
func (p Proof) Counter() int64 {
	m, err := readManifest(p.Manifest)
	if err != nil {
		return 0
	}
	return m.counter
}

// Proof is what came with the bundle when it was read from a directory or an archive.
func (b *Bundle) Proof() Proof { return b.proof }

// WithProof is the same bundle with another proof.
func (b *Bundle) WithProof(p Proof) *Bundle {
	out := *b
	out.proof = p
	return &out
}

// Keys are pinned public keys by their ids. With none, no signature is asked for. Immutable and safe
// for concurrent use.
type Keys map[string]Key

// Key is one pinned public key.
type Key struct {
	// Algorithm is one of OPA's for public keys: RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, ES512.
	Algorithm string
	// PEM is the key, as openssl writes a public key.
	PEM string
}

// Check says what is wrong with a key; nil when it can be pinned.
func (k Key) Check() error {
	switch {
	case !keys.IsSupportedAlgorithm(k.Algorithm) || strings.HasPrefix(k.Algorithm, "HS"):
		return fmt.Errorf("algorithm %q is none of RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384 and ES512", k.Algorithm)
	case strings.Contains(k.PEM, "PRIVATE KEY"):
		return errors.New("the file holds a private key, which only whoever signs should have: openssl pkey -pubout makes the public one")
	}
	block, _ := pem.Decode([]byte(k.PEM))
	if block == nil {
		return errors.New("the file holds no key in PEM: openssl pkey -pubout makes one")
	}
	public, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return fmt.Errorf("the file holds no public key: %w", err)
	}
	_, isRSA := public.(*rsa.PublicKey)
	_, isEC := public.(*ecdsa.PublicKey)
	if isEC != strings.HasPrefix(k.Algorithm, "ES") || !isEC && !isRSA {
		return fmt.Errorf("the key in the file is not one for %s", k.Algorithm)
	}
	return nil
}

// SignatureError says why a bundle is not proven by the pinned keys.
type SignatureError struct {
	// Message is what is wrong, in a sentence.
	Message string
	// Hint is what helps.
	Hint string
	// KeyID is the key the signature names, as far as it names one. Nothing proves it.
	KeyID string
}

// Error is the message, and what helps.
func (e *SignatureError) Error() string { return e.Message + "; " + e.Hint }

// Signed is what a verified proof says.
type Signed struct {
	// KeyID is the pinned key that verified it.
	KeyID string
	// Counter is metadata.bronzeward.counter of the manifest.
	Counter int64
}

const (
	maxSignatures = 1 << 20
	maxManifest   = 64 << 10
	signHint      = "sign the directory again: opa sign --bundle --signing-key KEY.pem --signing-alg ALG --output-file-path DIR DIR"
)

// IDs are the keys' ids in order.
func (k Keys) IDs() []string { return slices.Sorted(maps.Keys(k)) }

// Verify says by which pinned key a bundle is signed, and its counter. Every file of the bundle and the
// manifest are as they were signed, and none that was signed is missing; files that are no part of a
// bundle are not looked at. The error is *SignatureError.
func (k Keys) Verify(b *Bundle, p Proof) (Signed, error) {
	if len(bytes.TrimSpace(p.Signatures)) == 0 {
		return Signed{}, &SignatureError{Message: fmt.Sprintf("the law %.12s is not signed: it has no %s, and keys are pinned (%s)", b.revision, SignaturesFile, k.named()), Hint: signHint}
	}
	id, files, err := k.signedFiles(p.Signatures)
	if err != nil {
		return Signed{}, err
	}
	wrong := func(format string, args ...any) error {
		return &SignatureError{KeyID: id, Message: fmt.Sprintf(format, args...), Hint: "put the directory back as it was signed by " + id + ", or " + signHint}
	}
	if _, signed := files[ManifestFile]; !signed || len(p.Manifest) == 0 {
		return Signed{}, wrong("the law has no %s that is signed, so it says no counter", ManifestFile)
	}
	if err := opa.VerifyBundleFile(ManifestFile, *bytes.NewBuffer(p.Manifest), files); err != nil {
		return Signed{}, wrong("%s is not as it was signed", ManifestFile)
	}
	for _, f := range b.files {
		if _, signed := files[f.Path]; !signed {
			return Signed{}, wrong("%s is not signed: it came after the signature", f.Path)
		}
		body, err := asJudged(f)
		if err != nil {
			return Signed{}, wrong("%s cannot be read: %v", f.Path, err)
		}
		if err := opa.VerifyBundleFile(f.Path, *bytes.NewBuffer(body), files); err != nil {
			return Signed{}, wrong("%s is not as it was signed", f.Path)
		}
	}
	// What was verified is gone from the map.
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if belongs(name) && !hidden(name) {
			return Signed{}, wrong("%s was signed and is missing", name)
		}
	}
	m, err := readManifest(p.Manifest)
	if err != nil {
		return Signed{}, &SignatureError{KeyID: id, Message: err.Error(), Hint: signHint}
	}
	if m.counter < 1 {
		return Signed{}, &SignatureError{
			KeyID: id, Message: ManifestFile + ` says no counter: a signed law counts upward in {"metadata": {"bronzeward": {"counter": 1}}}`,
			Hint: "write it and " + signHint,
		}
	}
	return Signed{KeyID: id, Counter: m.counter}, nil
}

// signedFiles finds the pinned key of a signature, and the files that it is over.
func (k Keys) signedFiles(signatures []byte) (id string, files map[string]opa.FileInfo, err error) {
	var sc opa.SignaturesConfig
	if len(signatures) > maxSignatures || json.Unmarshal(signatures, &sc) != nil || len(sc.Signatures) != 1 || sc.Plugin != "" {
		return "", nil, &SignatureError{Message: SignaturesFile + " is not what opa sign writes, with exactly one signature", Hint: signHint}
	}
	for _, id := range k.IDs() {
		key := k[id]
		files, err := opa.VerifyBundleSignature(sc, opa.NewVerificationConfig(map[string]*opa.KeyConfig{id: {Key: key.PEM, Algorithm: key.Algorithm}}, id, "", nil))
		if err == nil {
			return id, below(files), nil
		}
	}
	e := &SignatureError{
		KeyID:   claimedKey(sc.Signatures[0]),
		Message: fmt.Sprintf("%s was made by none of the keys in policy.keys (%s)", SignaturesFile, k.named()),
		Hint:    "sign it with one of them, or put the public key of whoever signed it into policy.keys",
	}
	if e.KeyID != "" {
		e.Message = fmt.Sprintf("%s, which names the key %q, was made by none of the keys in policy.keys (%s)", SignaturesFile, e.KeyID, k.named())
	}
	return "", nil, e
}

// below are the signed files by their names in the law. `opa sign --bundle law` names them from where it
// was run ("law/.manifest"): the manifest says where the law begins. Files that lie elsewhere keep their
// names, and then nothing of the law is where it should be.
func below(files map[string]opa.FileInfo) map[string]opa.FileInfo {
	top := ""
	for name := range files {
		if dir := path.Dir(name); path.Base(name) == ManifestFile && (top == "" || len(dir) < len(top)) {
			top = dir
		}
	}
	out := map[string]opa.FileInfo{}
	for name, info := range files {
		short, is := strings.CutPrefix(name, top+"/")
		if top == "" || top == "." || !is {
			return files
		}
		out[short] = info
	}
	return out
}

func (k Keys) named() string { return strings.Join(k.IDs(), ", ") }

// asJudged is a file's body as OPA hashes it. Data are hashed by what they say, and YAML says different
// things to different readers: what was signed has to be what is judged by.
func asJudged(f File) ([]byte, error) {
	if !opa.IsStructuredDoc(f.Path) {
		return f.Body, nil
	}
	data, err := decodeData(f.Path, f.Body)
	if err != nil {
		return nil, err
	}
	return json.Marshal(data)
}

// hidden is true for what lies in, or is, a file or folder that begins with a dot.
func hidden(p string) bool {
	return slices.ContainsFunc(strings.Split(path.Clean(p), "/"), func(part string) bool { return strings.HasPrefix(part, ".") })
}
