package tree

import (
	"crypto/ed25519"
	"errors"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// signText signs any text as a note by the signer's newest key.
func signText(t testing.TB, s *localSigner, text string) []byte {
	t.Helper()
	v, err := verifier(s.keys[len(s.keys)-1].Public().(ed25519.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	out, err := note.Sign(&note.Note{Text: text}, given{v, ed25519.Sign(s.keys[len(s.keys)-1], []byte(text))})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestCheckpointsAreReadStrictly(t *testing.T) {
	signer := newSigner(1)
	keys := signer.verifiers(t)
	good := Checkpoint{Origin: Origin(installation, firstEpoch), Size: 7, Root: tlog.RecordHash([]byte("x"))}
	c, err := OpenCheckpoint(signText(t, signer, good.Text()), keys)
	if err != nil || c.Size != 7 || c.Root != good.Root || c.Installation != installation || c.Epoch != firstEpoch || len(c.Note) == 0 {
		t.Fatalf("control: %v, %+v", err, c)
	}
	change := func(old, by string) string { return strings.Replace(good.Text(), old, by, 1) }
	for name, text := range map[string]string{
		"a line more":            good.Text() + "extension\n",
		"a line less":            good.Origin + "\n7\n",
		"another log":            change("bronzeward/", "example.org/"),
		"upper case":             change("5b0f", "5B0F"),
		"a part more":            change("\n7", "/x\n7"),
		"no uuid":                change("5b0f", "xxxx"),
		"size zero":              change("\n7\n", "\n0\n"),
		"leading zero":           change("\n7\n", "\n07\n"),
		"a sign":                 change("\n7\n", "\n+7\n"),
		"a size beyond all":      change("\n7\n", "\n4611686018427387905\n"),
		"short root":             change(good.Root.String(), good.Root.String()[4:]),
		"root in other spelling": change(good.Root.String(), good.Root.String()[:42]+"B="),
	} {
		if _, err := OpenCheckpoint(signText(t, signer, text), keys); !errors.Is(err, ErrCheckpoint) {
			t.Errorf("%s: %v, want ErrCheckpoint", name, err)
		}
	}
	if _, err := OpenCheckpoint([]byte(good.Text()), keys); !errors.Is(err, ErrCheckpoint) {
		t.Errorf("not signed: %v", err)
	}
	if _, err := OpenCheckpoint(signText(t, newSigner(2), good.Text()), keys); !errors.Is(err, ErrKey) {
		t.Errorf("by another key: %v", err)
	}
}

func TestPublicKeyFiles(t *testing.T) {
	signer := newSigner(3)
	file := string(signer.file(t))
	if _, err := ParseKeys([]byte(file + file)); err != nil {
		t.Errorf("a key twice: %v", err)
	}
	if _, err := ParseKeys([]byte(strings.ReplaceAll(file, "\n", "\r\n"))); err != nil {
		t.Errorf("with CRLF: %v", err)
	}
	_, foreign, err := note.GenerateKey(strings.NewReader(strings.Repeat("x", 32)), "example.org")
	if err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string]string{
		"empty":              "",
		"comments only":      "# nothing\n\n",
		"no key":             "bronzeward+00000000+AAAA",
		"a key of others":    foreign,
		"good and no key":    file + "hello\n",
		"a private key file": "PRIVATE+KEY+bronzeward+00000000+AAAA",
	} {
		if _, err := ParseKeys([]byte(bad)); !errors.Is(err, ErrKeys) {
			t.Errorf("%s: %v, want ErrKeys", name, err)
		}
	}
	if _, err := VerifierKey(nil); !errors.Is(err, ErrKeys) {
		t.Errorf("%v, want ErrKeys", err)
	}
}

func TestConsistencySaysWhatIsWrong(t *testing.T) {
	o := &oracle{}
	for n := range int64(20) {
		o.add(t, n, tlog.RecordHash([]byte{byte(n)}))
	}
	at := func(size int64) Checkpoint {
		return Checkpoint{Origin: Origin(installation, firstEpoch), Size: size, Root: o.root(t, size)}
	}
	proof, err := tlog.ProveTree(20, 7, o)
	if err != nil {
		t.Fatal(err)
	}
	forked, other := at(20), at(20)
	forked.Root[0] ^= 1
	other.Origin = Origin(installation, secondEpoch)
	for _, c := range []struct {
		name         string
		older, newer Checkpoint
		proof        tlog.TreeProof
		is           error
	}{
		{"it grew", at(7), at(20), proof, nil},
		{"it is the same", at(7), at(7), nil, nil},
		{"it shrank", at(20), at(7), proof, ErrRolledBack},
		{"it forked", at(7), forked, proof, ErrForked},
		{"two of one size", at(20), forked, nil, ErrForked},
		{"another tree", at(7), other, proof, ErrOtherTree},
		{"no proof", at(7), at(20), nil, ErrForked},
		{"a proof for another size", at(8), at(20), proof, ErrForked},
		{"sizes beyond all", at(7), Checkpoint{Origin: at(7).Origin, Size: 1 << 62}, proof, ErrCheckpoint},
	} {
		if err := CheckConsistency(c.older, c.newer, c.proof); !errors.Is(err, c.is) || (err == nil) != (c.is == nil) {
			t.Errorf("%s: %v, want %v", c.name, err, c.is)
		}
	}
}

func FuzzCheckpoint(f *testing.F) {
	signer := newSigner(1)
	keys := signer.verifiers(f)
	good := Checkpoint{Origin: Origin(installation, firstEpoch), Size: 7, Root: tlog.RecordHash([]byte("x"))}
	f.Add(signText(f, signer, good.Text()), signer.file(f))
	f.Fuzz(func(t *testing.T, text, file []byte) {
		if c, err := OpenCheckpoint(text, keys); err == nil && c.Text() != good.Text() {
			t.Errorf("another text is signed: %q", c.Text())
		}
		if c, err := ReadUnverified(text); err == nil && (c.Size < 1 || c.Size > MaxSize) {
			t.Errorf("size %d", c.Size)
		}
		if _, err := ParseKeys(file); err != nil && !errors.Is(err, ErrKeys) {
			t.Error(err)
		}
	})
}
