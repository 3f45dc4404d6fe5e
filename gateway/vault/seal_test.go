package vault

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"bronzeward/fixtures/openbao/baotest"

	"pgregory.net/rapid"
)

var change = AssociatedData("chg_1", "machine", "digest")

func sealWith(t testing.TB, s *Sealer, text []byte) []byte {
	t.Helper()
	sealed, err := s.Seal(t.Context(), text, change)
	if err != nil {
		t.Fatal(err)
	}
	return sealed
}

func opens(t testing.TB, s *Sealer, sealed, text []byte) {
	t.Helper()
	got, err := s.Open(t.Context(), sealed, change)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, text) {
		t.Fatal("other bytes than were sealed")
	}
}

func TestSealedBytesComeBack(t *testing.T) {
	h := newHouse(t, baotest.Server(t))
	s := NewSealer(h.gateway(t))
	for _, size := range []int{0, 1, 10_700_000} {
		text := bytes.Repeat([]byte("k"), size)
		opens(t, s, sealWith(t, s, text), text)
	}
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.SliceOfN(rapid.Byte(), 0, 4096).Draw(rt, "text")
		associated := rapid.SliceOfN(rapid.Byte(), 0, 64).Draw(rt, "associated")
		sealed, err := s.Seal(t.Context(), text, associated)
		if err != nil {
			rt.Fatal(err)
		}
		got, err := s.Open(t.Context(), sealed, associated)
		if err != nil || !bytes.Equal(got, text) {
			rt.Fatalf("got %d bytes of %d, %v", len(got), len(text), err)
		}
		if len(text) > 8 && bytes.Contains(sealed, text) {
			rt.Fatal("the text is in the envelope")
		}
		if _, err := s.Open(t.Context(), sealed, append(associated, 1)); err == nil {
			rt.Fatal("it opens for another change")
		}
	})
}

// No byte of an envelope can be another one. Bytes that OpenBao does not read are altered one by
// one; of those that it does, each is.
func TestAnAlteredEnvelopeIsRefused(t *testing.T) {
	h := newHouse(t, baotest.Server(t))
	s := NewSealer(h.gateway(t))
	text := []byte("machine: {token: canary}")
	sealed := sealWith(t, s, text)
	refuses := func(t *testing.T, altered []byte) {
		t.Helper()
		got, err := s.Open(t.Context(), altered, change)
		if err == nil || got != nil {
			t.Fatal("it opens")
		}
		nothingOf(t, []string{string(text)}, err)
	}
	for i := range sealed {
		altered := bytes.Clone(sealed)
		altered[i] ^= 1
		refuses(t, altered)
	}
	for n := range sealed {
		refuses(t, sealed[:n])
	}
	refuses(t, append(bytes.Clone(sealed), 0))

	for name, test := range map[string]struct {
		sealed []byte
		class  error
		kind   Kind
		key    string
		words  string
	}{
		"empty":                                     {nil, ErrAltered, KindAltered, "", "empty"},
		"of the development sealer":                 {seal(t, sealer(t, "k1"), text, change), ErrRefused, KindMalformed, "", "format 1"},
		"cut before the wrapped key":                {sealed[:fixedSize], ErrAltered, KindAltered, "", "cut short"},
		"cut in the text":                           {sealed[:len(sealed)-1], ErrAltered, KindAltered, SealKey + " v1", "altered"},
		"no wrapped key":                            {append(append(bytes.Clone(sealed[:9]), 0, 0), sealed[fixedSize:]...), ErrAltered, KindAltered, "", "no wrapped key"},
		"a last byte that differs":                  {append(bytes.Clone(sealed[:len(sealed)-1]), sealed[len(sealed)-1]^1), ErrAltered, KindAltered, SealKey + " v1", "altered"},
		"a wrapped key that differs":                {alterWrapped(t, sealed), ErrAltered, KindAltered, SealKey + " v1", "wrapped key was altered"},
		"a wrapped key of a version that never was": {swapWrapped(t, sealed, "vault:v1:", "vault:v7:"), ErrRefused, KindKeyUnknown, SealKey + " v7", "up to v1"},
		"another time of the key":                   {withTime(sealed, 1), ErrAltered, KindAltered, SealKey + " v1", "altered"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := s.Open(t.Context(), test.sealed, change)
			if got != nil {
				t.Fatal("it opens")
			}
			wantError(t, err, test.class, test.kind, test.key, test.words)
		})
	}
	_, err := s.Open(t.Context(), sealed, AssociatedData("chg_2", "machine", "digest"))
	wantError(t, err, ErrAltered, KindAltered, SealKey+" v1", "sealed for something else")
	// Another text's wrapped key in front of this one's ciphertext.
	other := sealWith(t, s, text)
	head, _, _, _ := splitTransit(other)
	_, _, rest, _ := splitTransit(sealed)
	_, err = s.Open(t.Context(), append(bytes.Clone(head), rest...), change)
	wantError(t, err, ErrAltered, KindAltered, SealKey+" v1", "altered")
	opens(t, s, sealed, text) // the control
}

func withTime(sealed []byte, made uint64) []byte {
	out := bytes.Clone(sealed)
	binary.BigEndian.PutUint64(out[1:], made)
	return out
}

// swapWrapped changes the text of the wrapped key and keeps the rest.
func swapWrapped(t testing.TB, sealed []byte, from, to string) []byte {
	t.Helper()
	out := bytes.Replace(sealed, []byte(from), []byte(to), 1)
	if bytes.Equal(out, sealed) || len(out) != len(sealed) {
		t.Fatal("nothing was swapped")
	}
	return out
}

// alterWrapped flips a bit of what Transit encrypted, and encodes it as Transit does.
func alterWrapped(t testing.TB, sealed []byte) []byte {
	t.Helper()
	_, wrapped, _, _ := splitTransit(sealed)
	raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(wrapped, "vault:v1:"))
	if err != nil {
		t.Fatal(err)
	}
	raw[len(raw)-1] ^= 1
	return swapWrapped(t, sealed, wrapped, "vault:v1:"+base64.StdEncoding.EncodeToString(raw))
}

// What an operator may do to the key, and what whoever opens is told.
func TestWhatHappensToTheSealKeyIsNamed(t *testing.T) {
	text := []byte("machine: {token: canary}")
	for name, test := range map[string]struct {
		after func(*testing.T, *house)
		opens bool
		kind  Kind
		key   string
		words string
		seals bool
	}{
		"nothing": {after: func(*testing.T, *house) {}, opens: true, seals: true},
		"rotated": {after: func(t *testing.T, h *house) { h.rotate(t, SealKey) }, opens: true, seals: true},
		"rotated, and the least version raised": {func(t *testing.T, h *house) {
			h.rotate(t, SealKey)
			h.root(t, "POST", h.transit+"/keys/"+SealKey+"/config", map[string]any{"min_decryption_version": 2})
		}, false, KindKeyTooOld, SealKey + " v1", "below v2 (min_decryption_version)", true},
		"trimmed": {func(t *testing.T, h *house) {
			h.rotate(t, SealKey)
			h.root(t, "POST", h.transit+"/keys/"+SealKey+"/config", map[string]any{"min_decryption_version": 2, "min_encryption_version": 2})
			h.root(t, "POST", h.transit+"/keys/"+SealKey+"/trim", map[string]any{"min_available_version": 2})
		}, false, KindKeyTooOld, SealKey + " v1", "min_decryption_version", true},
		"deleted": {func(t *testing.T, h *house) { h.drop(t, SealKey) }, false, KindKeyMissing, SealKey, "no such key", false},
		"recreated": {
			func(t *testing.T, h *house) { h.recreate(t, SealKey, "aes256-gcm96") },
			false, KindKeyRecreated, SealKey + " v1", "recreated under the same name", true,
		},
		"recreated and rotated past": {func(t *testing.T, h *house) {
			h.recreate(t, SealKey, "aes256-gcm96")
			h.rotate(t, SealKey)
			h.rotate(t, SealKey)
		}, false, KindKeyRecreated, SealKey + " v1", "is gone", true},
		"recreated as another type": {
			func(t *testing.T, h *house) { h.recreate(t, SealKey, "ed25519") },
			false, KindKeyRecreated, SealKey + " v1", "recreated", false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, baotest.Server(t))
			s := NewSealer(h.gateway(t))
			sealed := sealWith(t, s, text)
			test.after(t, h)
			got, err := s.Open(t.Context(), sealed, change)
			switch {
			case test.opens:
				if err != nil || !bytes.Equal(got, text) {
					t.Fatalf("it does not open any more: %v", err)
				}
			case got != nil:
				t.Fatal("it opens")
			default:
				wantError(t, err, ErrRefused, test.kind, test.key, test.words)
			}
			// Whoever seals now either can, and then opens it again, or is told why not.
			now, err := s.Seal(t.Context(), text, change)
			if test.seals != (err == nil) {
				t.Fatalf("sealing: %v", err)
			}
			if err == nil {
				opens(t, s, now, text)
			}
			if test.kind == KindKeyMissing {
				wantError(t, err, ErrRefused, KindKeyMissing, SealKey, "no such key")
				if _, err := newTransitKey(h.operator, SealKey).info(t.Context(), "looking"); kindOf(err) != KindKeyMissing {
					t.Errorf("the key came into being by being used: %v", err)
				}
			}
		})
	}
}

// The control of the time in the envelope: without it, a key that was recreated cannot be told
// from an envelope that somebody altered.
func TestWithoutTheKeysTimeARecreatedKeyLooksLikeAnAttack(t *testing.T) {
	h := newHouse(t, baotest.Server(t))
	s := NewSealer(h.gateway(t))
	sealed := sealWith(t, s, []byte("text"))
	h.recreate(t, SealKey, "aes256-gcm96")
	now := h.key(t, SealKey).made[1]
	_, err := s.Open(t.Context(), withTime(sealed, uint64(now)), change)
	wantError(t, err, ErrAltered, KindAltered, SealKey+" v1", "altered")
	_, err = s.Open(t.Context(), sealed, change)
	wantError(t, err, ErrRefused, KindKeyRecreated, SealKey+" v1", "recreated")
}

// A key that is missing does not come into being by being used, because the policy says update
// and not create; with create it does.
func TestAMissingKeyIsNotMade(t *testing.T) {
	for name, test := range map[string]struct {
		widen bool
		made  bool
	}{
		"the shipped policy":                     {false, false},
		"control: with create, it would be made": {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t, baotest.Server(t))
			h.drop(t, SealKey)
			h.drop(t, DigestKey)
			if test.widen {
				hcl := strings.ReplaceAll(h.operator.localPolicy(h.setup.Policies[h.policy()]), `["update"]`, `["create", "update"]`)
				h.root(t, "PUT", "sys/policies/acl/"+h.policy(), map[string]any{"policy": hcl})
			}
			c := h.gateway(t)
			_, sealErr := NewSealer(c).Seal(t.Context(), []byte("text"), nil)
			_, _, wrapErr := newTransitKey(c, DigestKey).wrap(t.Context(), addingDigestKey, secret(1))
			_, looked := newTransitKey(h.operator, DigestKey).info(t.Context(), "looking")
			if made := looked == nil; made != test.made {
				t.Errorf("%s is there: %v (%v, %v)", DigestKey, made, wrapErr, looked)
			}
			if !test.made {
				wantError(t, wrapErr, ErrRefused, KindKeyMissing, DigestKey, "no such key")
			}
			// datakey never makes its key, whatever the policy.
			wantError(t, sealErr, ErrRefused, KindKeyMissing, SealKey, "no such key")
		})
	}
}

func TestSealingPrintsNoSecret(t *testing.T) {
	h := newHouse(t, baotest.Server(t))
	var log bytes.Buffer
	cfg := h.config(t, *h.setup.AppRole)
	cfg.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	c, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s := NewSealer(c)
	text := "machine: {token: canary-of-the-text}"
	sealed := sealWith(t, s, []byte(text))
	secretID, err := readSecretFile(h.setup.AppRole.SecretIDFile)
	if err != nil {
		t.Fatal(err)
	}
	secrets := []string{text, c.token.ClientToken, secretID, h.RootToken()}
	_, altered := s.Open(t.Context(), sealed, nil)
	h.root(t, "PUT", "sys/policies/acl/"+h.policy(), map[string]any{"policy": "# nothing"})
	_, forbidden := s.Open(t.Context(), sealed, change)
	wantError(t, forbidden, ErrRefused, KindForbidden, "", "403")
	_, forbidden2 := s.Seal(t.Context(), []byte(text), change)
	nothingOf(t, secrets, altered, forbidden, forbidden2, s, c, fmt.Errorf("wrapped: %w", forbidden))
	nothingOf(t, secrets, log.String())
	if !strings.Contains(log.String(), "logged in to OpenBao") {
		t.Errorf("nothing was logged, so nothing was searched: %s", log.String())
	}
}
