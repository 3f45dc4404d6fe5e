package vault

import (
	"bytes"
	"crypto/ecdsa"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/big"
	"strings"
	"testing"
)

// Nothing that holds a key shows it, however it is printed, encoded or logged.
func TestNothingPrintsAKey(t *testing.T) {
	certificate, key, ca := pair(t, 1)
	one, err := parsing(anyCredential)(certificate, key, ca)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := one.Certificate.PrivateKey.(*ecdsa.PrivateKey).Bytes()
	if err != nil {
		t.Fatal(err)
	}
	number := new(big.Int).SetBytes(raw)
	digest := DigestSecret{Version: "k1", Secret: secret(0xa7)}
	secrets := []string{
		number.String(), number.Text(16), strings.Split(string(key), "\n")[1],
		hex.EncodeToString(digest.Secret), base64.StdEncoding.EncodeToString(digest.Secret), "167, 167", "167 167", "0xa7, 0xa7", string(digest.Secret),
	}
	print := func(value any) string {
		var out bytes.Buffer
		for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
			fmt.Fprintf(&out, format+"\n", value)
		}
		raw, _ := json.Marshal(value)
		out.Write(raw)
		slog.New(slog.NewJSONHandler(&out, nil)).Info("said", slog.Any("value", value))
		slog.New(slog.NewTextHandler(&out, nil)).Info("said", slog.Any("value", value))
		return out.String()
	}
	for name, value := range map[string]any{
		"a credential": one, "a pointer to one": &one, "several": []Credential{one}, "by cluster": map[string]Credential{"east": one},
		"a held one": heldCredential{Credential: one}, "a digest key": digest, "several digest keys": []DigestSecret{digest},
	} {
		said := print(value)
		for _, s := range secrets {
			if strings.Contains(said, s) {
				t.Errorf("%s shows %.20s…: %.600s", name, s, said)
			}
		}
	}
	// As it is kept it is encoded, and only that.
	kept := talosSecret{Key: string(key)}
	if said := fmt.Sprintf("%v %+v %#v %s", kept, kept, kept, kept); strings.Contains(said, secrets[2]) {
		t.Errorf("what is kept in KV is shown: %s", said)
	}
	// Control: without the methods each shows its key.
	type bareCredential Credential
	type bareDigest DigestSecret
	if !strings.Contains(print(bareCredential(one)), number.String()) || !strings.Contains(print(bareDigest(digest)), secrets[4]) {
		t.Error("this test does not find a key that is shown")
	}
}
