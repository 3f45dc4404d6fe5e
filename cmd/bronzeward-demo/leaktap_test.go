package main

import (
	"encoding/base64"
	"testing"
)

func TestTheTapTakesSecretsAndNothingElse(t *testing.T) {
	secret := "a-secret-of-more-than-twenty-bytes"
	encoded := base64.StdEncoding.EncodeToString([]byte(secret))
	for _, row := range []struct{ name, path, body, want string }{
		{"a login", "/v1/auth/approle/login", `{"auth": {"client_token": "` + secret + `", "accessor": "another-text-that-is-no-secret"}}`, wireToken},
		{"a token looked up", "/v1/auth/token/lookup-self", `{"data": {"id": "` + secret + `"}}`, wireToken},
		{"an id of something else", "/v1/sys/mounts", `{"data": {"id": "` + secret + `"}}`, ""},
		{"a role id", "/v1/auth/approle/login", `{"role_id": "` + secret + `"}`, wireRole},
		{"a secret id", "/v1/auth/approle/role/r/secret-id", `{"data": {"secret_id": "` + secret + `"}}`, wireSecretID},
		{"a data key", "/v1/transit/datakey/plaintext/bronzeward-seal", `{"data": {"plaintext": "` + encoded + `", "ciphertext": "vault:v1:another"}}`, wireDataKey},
		{"a digest key", "/v1/transit/decrypt/bronzeward-digest", `{"data": {"plaintext": "` + encoded + `"}}`, wireDigestKey},
		{"a Talos key", "/v1/bronzeward/data/talos/lab", `{"data": {"data": {"key": "` + secret + `"}}}`, wireTalosKey},
		{"in a list", "/v1/x", `[[{"role_id": "` + secret + `"}]]`, wireRole},
		{"too short", "/v1/x", `{"role_id": "short"}`, ""},
		{"no JSON", "/v1/x", `{"role_id": "` + secret, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			var w tap
			w.look(row.path, []byte(row.body))
			want := 1
			if row.want == "" {
				want = 0
			}
			if got := w.all(""); len(got) != want || w.name(secret) != row.want {
				t.Errorf("it keeps %q as %q, want %q", got, w.name(secret), row.want)
			}
		})
	}
}
