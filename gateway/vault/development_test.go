package vault

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

func TestWhatIsSealedOpensAsItWas(t *testing.T) {
	d := sealer(t, "k1")
	rapid.Check(t, func(t *rapid.T) {
		plaintext := rapid.SliceOf(rapid.Byte()).Draw(t, "plaintext")
		associated := rapid.SliceOf(rapid.Byte()).Draw(t, "associated")
		kept := bytes.Clone(plaintext)
		sealed, err := d.Seal(context.Background(), plaintext, associated)
		if err != nil {
			t.Fatal(err)
		}
		before := bytes.Clone(sealed)
		got, err := d.Open(context.Background(), sealed, associated)
		if err != nil || !bytes.Equal(got, kept) {
			t.Fatalf("got %q, %v", got, err)
		}
		if !bytes.Equal(plaintext, kept) || !bytes.Equal(sealed, before) {
			t.Fatal("an argument was written to")
		}
		if len(sealed) != len(plaintext)+33 {
			t.Fatalf("%d bytes for %d", len(sealed), len(plaintext))
		}
	})
}

func TestOneTextIsNeverSealedTheSameTwice(t *testing.T) {
	d := sealer(t, "k1")
	if bytes.Equal(seal(t, d, []byte("text"), nil), seal(t, d, []byte("text"), nil)) {
		t.Error("two envelopes are the same")
	}
}

func TestSizes(t *testing.T) {
	d := sealer(t, "k1")
	for name, plaintext := range map[string][]byte{
		"nil": nil, "empty": {}, "16 MiB": bytes.Repeat([]byte("0123456789abcdef"), 1<<20),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := d.Open(t.Context(), seal(t, d, plaintext, []byte("change")), []byte("change"))
			if err != nil || !bytes.Equal(got, plaintext) {
				t.Fatalf("%d bytes, %v", len(got), err)
			}
		})
	}
}

// Whatever one bit of an envelope is changed, and wherever it is cut or lengthened, nothing opens.
func TestEveryAlteredByteIsRefused(t *testing.T) {
	d := sealer(t, "k1", "k3") // so that one bit makes the key's number another one of the file
	sealed := seal(t, d, []byte("machine: worker\n"), []byte("change"))
	for i := range sealed {
		for bit := range 8 {
			altered := bytes.Clone(sealed)
			altered[i] ^= 1 << bit
			got, err := d.Open(t.Context(), altered, []byte("change"))
			if err == nil || got != nil {
				t.Fatalf("byte %d, bit %d: it opens", i, bit)
			}
			class := ErrAltered
			if i == 0 || i < headerSize && altered[headerSize-1] != 3 {
				class = ErrRefused // another sealer's format, or a key that is not in the file
			}
			wantClass(t, err, class)
		}
	}
	for n := range sealed {
		if _, err := d.Open(t.Context(), sealed[:n], []byte("change")); err == nil {
			t.Fatalf("its first %d bytes open", n)
		} else {
			wantClass(t, err, ErrAltered)
		}
	}
	_, err := d.Open(t.Context(), append(bytes.Clone(sealed), 0), []byte("change"))
	wantClass(t, err, ErrAltered)
}

// The number of the key is authenticated: an envelope that names another key of the file does
// not open even if both keys have the same secret.
func TestTheHeaderIsAuthenticated(t *testing.T) {
	d, err := newDevelopment("k1", map[string][]byte{"k1": secret(1), "k2": secret(1)})
	if err != nil {
		t.Fatal(err)
	}
	sealed := seal(t, d, []byte("text"), nil)
	sealed[headerSize-1] = 2
	_, err = d.Open(t.Context(), sealed, nil)
	wantClass(t, err, ErrAltered)
}

func TestBytesOfOneChangeOpenForNoOther(t *testing.T) {
	d := sealer(t, "k1")
	mine := AssociatedData("chg_1", "machine-1", "hmac-sha256:k1:aa")
	sealed := seal(t, d, []byte("text"), mine)
	for name, other := range map[string][]byte{
		"another change":        AssociatedData("chg_2", "machine-1", "hmac-sha256:k1:aa"),
		"another machine":       AssociatedData("chg_1", "machine-2", "hmac-sha256:k1:aa"),
		"another digest":        AssociatedData("chg_1", "machine-1", "hmac-sha256:k1:ab"),
		"another order":         AssociatedData("machine-1", "chg_1", "hmac-sha256:k1:aa"),
		"the names run on":      AssociatedData("chg_1machine-1", "", "hmac-sha256:k1:aa"),
		"one name less":         AssociatedData("chg_1", "machine-1"),
		"nothing":               nil,
		"one byte more":         append(bytes.Clone(mine), 0),
		"the header goes along": append(header(1), mine...),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := d.Open(t.Context(), sealed, other)
			wantClass(t, err, ErrAltered)
			if got != nil {
				t.Error("bytes come with the refusal")
			}
		})
	}
}

// Control: without the associated data, bytes that were moved to another change open for it.
func TestControlWithoutAssociatedData(t *testing.T) {
	d := sealer(t, "k1")
	key, head := d.keys[1], header(1)
	moved := key.Seal(bytes.Clone(head), nil, []byte("text of change 1"), head)
	got, err := key.Open(nil, nil, moved[headerSize:], head) // as change 2 would
	if err != nil || string(got) != "text of change 1" {
		t.Fatalf("the bad end state did not come: %v; the test above proves nothing", err)
	}
}

func TestAssociatedDataIsOfOneListOnly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfN(rapid.StringOfN(rapid.SampledFrom([]rune{0, 1, 'a'}), 0, 3, -1), 0, 3)
		a, b := names.Draw(t, "a"), names.Draw(t, "b")
		same := len(a) == len(b)
		for i := 0; same && i < len(a); i++ {
			same = a[i] == b[i]
		}
		if bytes.Equal(AssociatedData(a...), AssociatedData(b...)) != same {
			t.Fatalf("%q and %q", a, b)
		}
	})
}

func TestOldEnvelopesOpenAfterRotation(t *testing.T) {
	old := seal(t, sealer(t, "k1"), []byte("text"), []byte("change"))
	both := sealer(t, "k2", "k1")
	if got, err := both.Open(t.Context(), old, []byte("change")); err != nil || string(got) != "text" {
		t.Fatalf("got %q, %v", got, err)
	}
	sealed := seal(t, both, []byte("text"), []byte("change"))
	if sealed[headerSize-1] != 2 {
		t.Error("new envelopes are not under the current key")
	}
	_, err := sealer(t, "k1").Open(t.Context(), sealed, []byte("change"))
	wantClass(t, err, ErrRefused)
	var typed *Error
	if errors.As(err, &typed); typed.KeyVersion != "k2" || !strings.Contains(err.Error(), "key k2") {
		t.Errorf("the refusal does not name the key: %v", err)
	}
	other, err := newDevelopment("k1", map[string][]byte{"k1": secret('9')})
	if err != nil {
		t.Fatal(err)
	}
	_, err = other.Open(t.Context(), old, []byte("change"))
	wantClass(t, err, ErrAltered)
}

// The secret of the file is no key itself: an envelope made with it directly does not open.
func TestTheSealingKeyIsDerived(t *testing.T) {
	block, err := aes.NewCipher(secret('1'))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		t.Fatal(err)
	}
	d := sealer(t, "k1")
	_, err = d.Open(t.Context(), raw.Seal(header(1), nil, []byte("text"), header(1)), nil)
	wantClass(t, err, ErrAltered)
}

func TestACallerThatIsGoneIsAnOutage(t *testing.T) {
	d := sealer(t, "k1")
	sealed := seal(t, d, []byte("text"), nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := d.Seal(ctx, []byte("text"), nil)
	wantClass(t, err, ErrUnavailable)
	_, err = d.Open(ctx, sealed, nil)
	wantClass(t, err, ErrUnavailable)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the cause is lost: %v", err)
	}
}

func TestManyAtOnce(t *testing.T) {
	d := sealer(t, "k1")
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			text := bytes.Repeat([]byte{byte(i)}, 1000)
			sealed, err := d.Seal(t.Context(), text, nil)
			if err != nil {
				t.Error(err)
				return
			}
			if got, err := d.Open(t.Context(), sealed, nil); err != nil || !bytes.Equal(got, text) {
				t.Errorf("%d: %v", i, err)
			}
		})
	}
	group.Wait()
}

func TestNeitherErrorsNorPrintingShowSecrets(t *testing.T) {
	key := []byte("canary-of-the-key-canary-of-the-key")
	d, err := newDevelopment("k1", map[string][]byte{"k1": key})
	if err != nil {
		t.Fatal(err)
	}
	sealed := seal(t, d, []byte("canary-of-the-text"), []byte("canary-of-the-change"))
	sealed[len(sealed)-1] ^= 1
	_, altered := d.Open(t.Context(), sealed, []byte("canary-of-the-change"))
	_, refused := d.Open(t.Context(), append([]byte{9}, "canary-of-the-text"...), nil)
	for name, text := range map[string]string{
		"altered": fmt.Sprintf("%v %+v %#v", altered, altered, altered), "refused": fmt.Sprintf("%v %+v %#v", refused, refused, refused),
		"%v": fmt.Sprintf("%v", d), "%+v": fmt.Sprintf("%+v", d), "%#v": fmt.Sprintf("%#v", d), "the value": fmt.Sprintf("%+v", *d),
	} {
		for _, secret := range []string{"canary", hex.EncodeToString(key[:8]), strings.Trim(fmt.Sprint(key[:8]), "[]")} {
			if strings.Contains(text, secret) {
				t.Errorf("%s shows %s: %s", name, secret, text)
			}
		}
	}
}
