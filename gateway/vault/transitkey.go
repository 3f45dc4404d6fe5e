package vault

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
)

// knownFor is how long the times of a key's versions are remembered: a key that was recreated
// under the same name is noticed after that at the latest, by whoever seals.
const knownFor = time.Minute

// transitKey is one key of Transit, with what OpenBao says about its versions.
type transitKey struct {
	client *Client
	name   string

	mu    sync.Mutex // guards what follows
	known keyInfo
	asked time.Time
}

// keyInfo is what OpenBao says about a key. Its versions are told apart by when they were made.
type keyInfo struct {
	made           map[int]int64 // Unix seconds by version
	latest, oldest int           // oldest is the least that still decrypts
	publicKeys     map[int]string
	exportable     bool
	deletable      bool
	plaintext      bool
	kind           string
}

func newTransitKey(c *Client, name string) *transitKey { return &transitKey{client: c, name: name} }

// at names the key with a version.
func (k *transitKey) at(version int) string {
	if version == 0 {
		return k.name
	}
	return k.name + " v" + strconv.Itoa(version)
}

// made is when a version was made, by what is remembered or by asking.
func (k *transitKey) made(ctx context.Context, doing string, version int) (int64, error) {
	k.mu.Lock()
	made, ok := k.known.made[version]
	fresh := time.Since(k.asked) < knownFor
	k.mu.Unlock()
	if ok && fresh {
		return made, nil
	}
	info, err := k.info(ctx, doing)
	if err != nil {
		return 0, err
	}
	if made, ok = info.made[version]; !ok {
		return 0, &Error{Doing: doing, Class: ErrRefused, Kind: KindKeyUnknown, KeyVersion: k.at(version), Reason: "OpenBao used a version of the key that it does not list"}
	}
	return made, nil
}

// info asks for what OpenBao says about the key, and remembers it.
func (k *transitKey) info(ctx context.Context, doing string) (keyInfo, error) {
	data, err := k.client.read(ctx, doing, k.client.transit+"/keys/"+k.name)
	if kindOf(err) == KindMissing {
		return keyInfo{}, k.gone(doing)
	}
	if err != nil {
		return keyInfo{}, err
	}
	info, err := parseKeyInfo(data)
	if err != nil {
		return keyInfo{}, refused(doing, KindMalformed, err, "OpenBao does not describe the key %s as expected", k.name)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.known, k.asked = info, time.Now()
	return info, nil
}

func (k *transitKey) gone(doing string) *Error {
	return &Error{Doing: doing, Class: ErrRefused, Kind: KindKeyMissing, KeyVersion: k.name, Reason: "OpenBao has no such key: it was deleted, or bronzeward openbao setup was never run"}
}

// parseKeyInfo reads a description of a symmetric or a signing key.
func parseKeyInfo(data map[string]any) (keyInfo, error) {
	info := keyInfo{made: map[int]int64{}, publicKeys: map[int]string{}}
	versions, ok := data["keys"].(map[string]any)
	if !ok {
		return info, errors.New("no versions")
	}
	for name, value := range versions {
		version, err := strconv.Atoi(name)
		if err != nil || version < 1 {
			return info, errors.New("a version is no number from 1 on")
		}
		switch v := value.(type) {
		case json.Number:
			if info.made[version], err = v.Int64(); err != nil {
				return info, err
			}
		case map[string]any:
			text, _ := v["creation_time"].(string)
			made, err := time.Parse(time.RFC3339Nano, text)
			if err != nil {
				return info, err
			}
			info.made[version] = made.Unix()
			info.publicKeys[version], _ = v["public_key"].(string)
		default:
			return info, errors.New("a version has no time")
		}
	}
	info.kind, _ = data["type"].(string)
	info.exportable, _ = data["exportable"].(bool)
	info.deletable, _ = data["deletion_allowed"].(bool)
	info.plaintext, _ = data["allow_plaintext_backup"].(bool)
	var err error
	if info.latest, err = number(data["latest_version"]); err != nil {
		return info, err
	}
	info.oldest, err = number(data["min_decryption_version"])
	return info, err
}

func number(value any) (int, error) {
	n, ok := value.(json.Number)
	if !ok {
		return 0, errors.New("a version is missing")
	}
	out, err := n.Int64()
	if err == nil && out < 0 {
		return 0, errors.New("a version is below 0")
	}
	return int(out), err
}

// unwrap has OpenBao decrypt a wrapped key of a version that was made then.
func (k *transitKey) unwrap(ctx context.Context, doing, wrapped string, version int, made int64) ([]byte, error) {
	data, err := k.client.write(ctx, doing, k.client.transit+"/decrypt/"+k.name, map[string]any{"ciphertext": wrapped})
	if err != nil {
		return nil, k.diagnose(ctx, doing, version, made, err)
	}
	encoded, ok := data["plaintext"].(string)
	secret, err := base64.StdEncoding.DecodeString(encoded)
	if !ok || err != nil {
		return nil, refused(doing, KindMalformed, nil, "OpenBao did not give a key")
	}
	return secret, nil
}

// wrap has OpenBao encrypt a key under the latest version.
func (k *transitKey) wrap(ctx context.Context, doing string, secret []byte) (wrapped string, made int64, err error) {
	data, err := k.client.write(ctx, doing, k.client.transit+"/encrypt/"+k.name, map[string]any{"plaintext": base64.StdEncoding.EncodeToString(secret)})
	if err != nil {
		return "", 0, k.diagnose(ctx, doing, 0, 0, err)
	}
	wrapped, _ = data["ciphertext"].(string)
	version, err := versionOf(wrapped)
	if err != nil {
		return "", 0, refused(doing, KindMalformed, nil, "OpenBao did not wrap the key")
	}
	made, err = k.made(ctx, doing, version)
	return wrapped, made, err
}

// sinceEver stands for a version whose time nobody wrote down.
const sinceEver = -1

// diagnoseVersion is diagnose where the version's time is not known.
func (k *transitKey) diagnoseVersion(ctx context.Context, doing string, version int, err error) error {
	return k.diagnose(ctx, doing, version, sinceEver, err)
}

// diagnose says why OpenBao did not use the key, by what it says about it. version 0 means the
// latest. What is no refusal of the key is given back as it is.
func (k *transitKey) diagnose(ctx context.Context, doing string, version int, made int64, err error) error {
	kind := kindOf(err)
	if kind != KindMalformed && kind != KindMissing && kind != KindForbidden {
		return err
	}
	// A key that is missing shows as forbidden where using it would make it.
	info, asked := k.info(ctx, doing)
	switch {
	case kindOf(asked) == KindKeyMissing:
		return asked
	case asked != nil, kind == KindForbidden:
		return err
	}
	about := func(class error, kind Kind, format string, args ...any) error {
		return &Error{Doing: doing, Class: class, Kind: kind, KeyVersion: k.at(version), Reason: fmt.Sprintf(format, args...), Cause: err}
	}
	now, listed := info.made[version]
	switch {
	case version == 0:
		return err
	case made == sinceEver:
		made = now
	}
	switch {
	case version > info.latest:
		return about(ErrRefused, KindKeyUnknown, "OpenBao has the key up to v%d only: it was restored from an older state than the database, or the key was recreated", info.latest)
	case listed && now != made:
		return about(ErrRefused, KindKeyRecreated, "the key was recreated under the same name at %s, and the one of %s is gone", moment(now), moment(made))
	case version < info.oldest:
		return about(ErrRefused, KindKeyTooOld, "OpenBao no longer decrypts with versions below v%d (min_decryption_version)", info.oldest)
	case !listed:
		return about(ErrRefused, KindKeyTooOld, "OpenBao no longer has that version: older ones were trimmed")
	case strings.Contains(words(err), "message authentication failed"):
		return about(ErrAltered, KindAltered, "the wrapped key was altered")
	}
	return err
}

func moment(seconds int64) string { return time.Unix(seconds, 0).UTC().Format(time.RFC3339) }

// kindOf is the reason class of an error, empty when it is none of ours.
func kindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return ""
}

// words are OpenBao's own, for telling its refusals apart; they are shown to nobody.
func words(err error) string {
	var e *Error
	if errors.As(err, &e) && e.Cause != nil {
		return e.Cause.Error()
	}
	return ""
}
