package vault

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"time"
)

// EnsureAuthority makes the authority when there is none, for operators; made is whether it
// did. rotate makes a new one: under a new version of the key, with the present one
// trusted beside it until DropPrevious, before which there is no other rotation, and signing until every replica has
// read the new one. A process that ends after the key
// was given its new version and before the certificate is written leaves the present authority
// as it was. The error is an *Error.
func EnsureAuthority(ctx context.Context, c *Client, rotate bool) (made bool, err error) {
	key := newTransitKey(c, CAKey)
	file, over, err := readCA(ctx, c)
	switch kind := kindOf(err); {
	case err == nil && !rotate:
		return false, nil
	case err != nil && kind != KindMissing:
		return false, err
	}
	if rotate && file.Previous != "" {
		return false, refused(makingCA, KindMalformed, ErrTwoTrusted, "%v; nothing was changed", ErrTwoTrusted)
	}
	if rotate {
		if _, err := c.write(ctx, makingCA, c.transit+"/keys/"+CAKey+"/rotate", nil); err != nil {
			return false, err
		}
	}
	info, err := key.info(ctx, makingCA)
	if err != nil {
		return false, err
	}
	text, err := selfSigned(ctx, key, info)
	if err != nil {
		return false, err
	}
	next := caFile{Current: text, KeyVersion: info.latest, Previous: file.Current}
	if previous, _, err := file.parse(); err == nil && isKeyOf(info, file.KeyVersion, previous) {
		next.PreviousVersion = file.KeyVersion
	}
	_, err = c.put(ctx, makingCA, PathCA, next, over)
	if kindOf(err) == KindMoved && over == 0 {
		if _, _, again := readCA(ctx, c); again == nil && !rotate {
			return false, nil // somebody else made it in between
		}
		return false, refused(makingCA, KindMissing, err, "the authority at %s/%s was deleted: bring it back (bao kv undelete -mount=%s -versions=N %s), or remove it for good (bao kv metadata delete) and run setup again", c.kv, PathCA, c.kv, PathCA)
	}
	return err == nil, err
}

// readCA reads what KV holds of the authority, and refuses what is none.
func readCA(ctx context.Context, c *Client) (file caFile, version int, err error) {
	if version, err = c.get(ctx, makingCA, PathCA, &file); err != nil {
		return caFile{}, 0, err
	}
	if _, _, err := file.parse(); err != nil {
		return caFile{}, 0, refused(makingCA, KindMalformed, err, "what is at %s/%s is no authority: %v", c.kv, PathCA, err)
	}
	return file, version, nil
}

// ErrTwoTrusted refuses a rotation that would end the certificates of the authority before.
var ErrTwoTrusted = errors.New("two authorities are trusted already: first bronzeward openbao drop-ca")

// MostCertificateLife is the longest that a person's certificate may live.
const MostCertificateLife = 24 * time.Hour

// previousUntil is when the last certificate of the authority before has ended: it signs until
// every replica knows the current one, which names when it was made.
func previousUntil(current, previous *x509.Certificate) time.Time {
	until := current.NotBefore.Add(backdated + spreadWithin + MostCertificateLife)
	if previous.NotAfter.Before(until) {
		return previous.NotAfter
	}
	return until
}

// DropPrevious stops trusting the authority before the current one, for operators; dropped is
// whether there was one. sure is told until when certificates of it may be good, and its error
// ends it with nothing changed; nil asks nobody. Any other error is an *Error.
func DropPrevious(ctx context.Context, c *Client, sure func(until time.Time) error) (dropped bool, err error) {
	file, over, err := readCA(ctx, c)
	if err != nil || file.Previous == "" {
		return false, err
	}
	current, previous, err := file.parse()
	if err != nil {
		return false, err
	}
	if sure != nil {
		if err := sure(previousUntil(current, previous)); err != nil {
			return false, err
		}
	}
	file.Previous, file.PreviousVersion = "", 0
	_, err = c.put(ctx, makingCA, PathCA, file, over)
	return err == nil, err
}

// isKeyOf is whether a version of the key is there and the one of the certificate: a key that was
// recreated signs nothing for an authority of the one before.
func isKeyOf(info keyInfo, version int, certificate *x509.Certificate) bool {
	block, _ := pem.Decode([]byte(info.publicKeys[version]))
	return block != nil && bytes.Equal(block.Bytes, certificate.RawSubjectPublicKeyInfo)
}

// selfSigned makes the authority's certificate under the latest version of the key, as PEM.
func selfSigned(ctx context.Context, key *transitKey, info keyInfo) (string, error) {
	block, _ := pem.Decode([]byte(info.publicKeys[info.latest]))
	if block == nil {
		return "", refused(makingCA, KindMalformed, nil, "OpenBao gives no public key for %s", key.at(info.latest))
	}
	public, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return "", refused(makingCA, KindMalformed, err, "OpenBao gives no public key for %s", key.at(info.latest))
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return "", err
	}
	now := time.Now().UTC().Truncate(time.Second)
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: fmt.Sprintf("Bronzeward people v%d", info.latest)},
		NotBefore: now.Add(-backdated), NotAfter: now.Add(caLife),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, &transitSigner{ctx: ctx, key: key, version: info.latest, public: public})
	if err != nil {
		return "", fmt.Errorf("%s: %w", makingCA, err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), nil
}
