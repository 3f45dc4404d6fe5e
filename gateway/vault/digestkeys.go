package vault

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// DigestKey is the Transit key that wraps the digest keys.
const DigestKey = "bronzeward-digest"

const (
	readingDigestKeys = "reading the digest keys"
	addingDigestKey   = "adding a digest key"
	digestSecretSize  = 32
	// spreadWithin is how long before its first use a new digest key is written: every replica
	// reads the keys anew several times in between.
	spreadWithin = 2 * time.Minute
	// MostRefresh is the longest time between two readings of a Keeper that this leaves room for: a
	// replica that missed one reading still has the key before it meets a digest of it.
	MostRefresh = spreadWithin / 2
	// mostDigestKeys is far above what a house needs: one a month for eight years.
	mostDigestKeys = 100
)

// DigestSecret is one digest key, unwrapped. It prints as its name.
type DigestSecret struct {
	// Version is k1, k2, …
	Version string
	// UsableFrom is when new digests begin to be made with it; older digests are compared at any time.
	UsableFrom time.Time
	// Secret is the key itself.
	Secret []byte
	// wrapped is what KV had of it, so that another text under the same name is unwrapped anew.
	wrapped string
}

// String shows no key.
func (d DigestSecret) String() string { return "digest key " + d.Version }

// GoString shows what String shows.
func (d DigestSecret) GoString() string { return d.String() }

// MarshalText shows what String shows: an encoder would go through the fields.
func (d DigestSecret) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// wrappedDigestKey is how a digest key is kept in KV.
type wrappedDigestKey struct {
	// Wrapped is Transit's ciphertext, KeyMade when the wrapping version was made (Unix seconds).
	Wrapped string `json:"wrapped"`
	KeyMade int64  `json:"key_made"`
	// UsableFrom as in DigestSecret.
	UsableFrom time.Time `json:"usable_from"`
}

type digestKeysFile struct {
	Keys map[string]wrappedDigestKey `json:"keys"`
}

// check is what can be said without the keys themselves; it quotes nothing.
func (f digestKeysFile) check() error {
	if len(f.Keys) == 0 || len(f.Keys) > mostDigestKeys {
		return fmt.Errorf("there are %d digest keys, and not 1 to %d", len(f.Keys), mostDigestKeys)
	}
	for version, one := range f.Keys {
		if digestNumber(version) < 1 {
			return errors.New("a digest key is not named k1, k2, …")
		}
		if _, err := versionOf(one.Wrapped); err != nil || one.KeyMade <= 0 || one.UsableFrom.IsZero() {
			return fmt.Errorf("digest key %s is not wrapped by Transit, or lacks a time", version)
		}
	}
	return nil
}

// DigestKeys keeps the keys of configuration digests: random, wrapped by Transit, in KV, where
// they survive a restore of the database. No key is ever taken away here, because a stored
// digest is never rewritten. Safe for concurrent use, and by many replicas.
type DigestKeys struct {
	client *Client
	key    *transitKey
	now    func() time.Time
	first  int
}

// NewDigestKeys asks nothing yet. now is the clock that the first use of a new key is set by,
// the database's; nil: this host's.
func NewDigestKeys(c *Client, now func() time.Time) *DigestKeys {
	if now == nil {
		now = time.Now
	}
	return &DigestKeys{client: c, key: newTransitKey(c, DigestKey), now: now, first: 1}
}

// Load gives every key, unwrapped, in the order of their numbers: one question to KV, and one
// to Transit for each key that is not in known as it is. known are keys of an earlier Load; one
// that is wrapped otherwise by now is asked for, because it may be another key.
func (d *DigestKeys) Load(ctx context.Context, known []DigestSecret) ([]DigestSecret, error) {
	var file digestKeysFile
	if _, err := d.client.get(ctx, readingDigestKeys, PathDigestKeys, &file); err != nil {
		if kindOf(err) == KindMissing {
			return nil, refused(readingDigestKeys, KindMissing, err, "OpenBao has no digest keys at %s/%s: run bronzeward openbao setup, and if there were some, bring them back first (bao kv undelete)", d.client.kv, PathDigestKeys)
		}
		return nil, err
	}
	if err := file.check(); err != nil {
		return nil, refused(readingDigestKeys, KindMalformed, nil, "what is at %s/%s cannot be used: %v", d.client.kv, PathDigestKeys, err)
	}
	out := make([]DigestSecret, 0, len(file.Keys))
	for _, version := range slices.Sorted(maps.Keys(file.Keys)) {
		one := file.Keys[version]
		secret, err := d.unwrap(ctx, version, one, known)
		if err != nil {
			return nil, err
		}
		out = append(out, DigestSecret{Version: version, UsableFrom: one.UsableFrom, Secret: secret, wrapped: one.Wrapped})
	}
	slices.SortFunc(out, func(a, b DigestSecret) int { return digestNumber(a.Version) - digestNumber(b.Version) })
	return out, nil
}

func (d *DigestKeys) unwrap(ctx context.Context, version string, one wrappedDigestKey, known []DigestSecret) ([]byte, error) {
	for _, k := range known {
		if k.Version == version && k.wrapped == one.Wrapped {
			return k.Secret, nil
		}
	}
	wrappedBy, err := versionOf(one.Wrapped)
	if err != nil {
		return nil, refused(readingDigestKeys, KindMalformed, nil, "digest key %s is not wrapped by Transit", version)
	}
	secret, err := d.key.unwrap(ctx, readingDigestKeys, one.Wrapped, wrappedBy, one.KeyMade)
	if err != nil {
		return nil, err
	}
	if len(secret) != digestSecretSize {
		return nil, refused(readingDigestKeys, KindMalformed, nil, "digest key %s has another size", version)
	}
	return secret, nil
}

// Add makes the next key and gives its name and when it is first used: late enough for every
// replica to have it by then. An *Error of KindMoved says that somebody else added one at the
// same time; nothing is added then.
func (d *DigestKeys) Add(ctx context.Context) (version string, usableFrom time.Time, err error) {
	var file digestKeysFile
	over, err := d.client.get(ctx, addingDigestKey, PathDigestKeys, &file)
	if err != nil {
		return "", time.Time{}, err
	}
	if err := file.check(); err != nil {
		return "", time.Time{}, refused(addingDigestKey, KindMalformed, nil, "what is at %s/%s cannot be added to: %v", d.client.kv, PathDigestKeys, err)
	}
	usableFrom = d.now().Add(spreadWithin).UTC().Truncate(time.Second)
	version, err = d.add(ctx, file, over, usableFrom)
	return version, usableFrom, err
}

// Begin has Ensure make k<first>, and not k1: for an OpenBao that is set up anew beside a book
// whose digests name keys that are lost. Another key under one of their names would compare with
// them, and never be the same.
func (d *DigestKeys) Begin(first int) *DigestKeys {
	d.first = first
	return d
}

// Ensure makes the first key when none was ever made; made is whether it did. Keys that were
// deleted are an *Error: another k1 under the same name would make every stored digest a lie.
func (d *DigestKeys) Ensure(ctx context.Context) (made bool, err error) {
	var file digestKeysFile
	_, err = d.client.get(ctx, addingDigestKey, PathDigestKeys, &file)
	if err == nil {
		return false, nil
	}
	if kindOf(err) != KindMissing {
		return false, err
	}
	// Check-and-set of 0 fails when there is any version, deleted ones included.
	_, err = d.add(ctx, digestKeysFile{}, 0, d.now().UTC().Truncate(time.Second))
	if kindOf(err) == KindMoved {
		if _, again := d.client.get(ctx, addingDigestKey, PathDigestKeys, &file); again == nil {
			return false, nil // somebody else made it in between
		}
		return false, refused(addingDigestKey, KindMissing, err, "the digest keys at %s/%s were deleted: undelete them (bao kv undelete -mount=%s -versions=N %s)", d.client.kv, PathDigestKeys, d.client.kv, PathDigestKeys)
	}
	return err == nil, err
}

func (d *DigestKeys) add(ctx context.Context, file digestKeysFile, over int, usableFrom time.Time) (string, error) {
	last := 0
	if len(file.Keys) == 0 {
		last = d.first - 1
	}
	for version := range file.Keys {
		last = max(last, digestNumber(version))
	}
	if len(file.Keys) >= mostDigestKeys {
		return "", refused(addingDigestKey, KindMalformed, nil, "there are %d digest keys already", len(file.Keys))
	}
	// With an operator's rights, encrypting under a missing key would make it.
	if _, err := d.key.info(ctx, addingDigestKey); err != nil {
		return "", err
	}
	secret := make([]byte, digestSecretSize)
	_, _ = rand.Read(secret) // never fails: crypto/rand ends the process instead
	defer clear(secret)
	wrapped, made, err := d.key.wrap(ctx, addingDigestKey, secret)
	if err != nil {
		return "", err
	}
	// What cannot be read back must not be what digests are made with.
	number, err := versionOf(wrapped)
	if err != nil {
		return "", refused(addingDigestKey, KindMalformed, nil, "OpenBao did not wrap the key")
	}
	back, err := d.key.unwrap(ctx, addingDigestKey, wrapped, number, made)
	if err != nil {
		return "", err
	}
	if subtle.ConstantTimeCompare(back, secret) != 1 {
		return "", refused(addingDigestKey, KindMalformed, nil, "OpenBao gives back another key than it was given")
	}
	version := fmt.Sprintf("k%d", last+1)
	next := digestKeysFile{Keys: maps.Clone(file.Keys)}
	if next.Keys == nil {
		next.Keys = map[string]wrappedDigestKey{}
	}
	next.Keys[version] = wrappedDigestKey{Wrapped: wrapped, KeyMade: made, UsableFrom: usableFrom}
	_, err = d.client.put(ctx, addingDigestKey, PathDigestKeys, next, over)
	return version, err
}

// digestNumber is the 3 of k3, 0 when it is none.
func digestNumber(version string) int {
	digits, ok := strings.CutPrefix(version, "k")
	n, err := strconv.Atoi(digits)
	if !ok || err != nil || digits != strconv.Itoa(n) {
		return 0
	}
	return n
}
