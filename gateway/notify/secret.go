package notify

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

const (
	secretPrefix = "whsec_"
	// A secret has 24 to 64 random bytes (Standard Webhooks 1.0.0).
	minSecret, maxSecret = 24, 64
	// maxSecrets is more than the two of a rotation, and few enough for a header.
	maxSecrets    = 4
	maxSecretFile = 4 << 10
)

// signer signs with each secret of a file. Printing it shows none of them.
type signer struct {
	hooks []*standardwebhooks.Webhook
}

// String shows no secret.
func (s signer) String() string { return fmt.Sprintf("%d webhook secrets", len(s.hooks)) }

// GoString shows what String shows.
func (s signer) GoString() string { return s.String() }

// CheckSecrets reads the file of secrets as each try does, so that a start can be refused. No
// error text holds a secret.
func (c Config) CheckSecrets() error {
	_, err := readSecrets(c.SecretFile)
	return err
}

// readSecrets reads one secret per line; empty lines are passed over.
func readSecrets(path string) (signer, error) {
	text, err := readPrivate(path)
	if err != nil {
		return signer{}, fmt.Errorf("reading the webhook secrets: %w", err)
	}
	return parseSecrets(path, text)
}

func parseSecrets(path string, text []byte) (signer, error) {
	var out signer
	for i, line := range strings.Split(string(text), "\n") {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		encoded, ok := strings.CutPrefix(line, secretPrefix)
		key, err := base64.StdEncoding.DecodeString(encoded)
		if !ok || err != nil || len(key) < minSecret || len(key) > maxSecret {
			return signer{}, fmt.Errorf("reading the webhook secrets: line %d of %s is not %s and base64 of %d to %d bytes",
				i+1, path, secretPrefix, minSecret, maxSecret)
		}
		hook, err := standardwebhooks.NewWebhookRaw(key)
		if err != nil {
			return signer{}, fmt.Errorf("reading the webhook secrets: line %d of %s is refused", i+1, path)
		}
		out.hooks = append(out.hooks, hook)
	}
	if len(out.hooks) == 0 || len(out.hooks) > maxSecrets {
		return signer{}, fmt.Errorf("reading the webhook secrets: %s holds %d secrets, and must hold 1 to %d", path, len(out.hooks), maxSecrets)
	}
	return out, nil
}

// readPrivate reads a small file that only its owner can read.
func readPrivate(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file", path)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("others can read %s (chmod 600 it)", path)
	}
	text, err := io.ReadAll(io.LimitReader(file, maxSecretFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxSecretFile {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, maxSecretFile)
	}
	return text, nil
}

// sign gives the value of webhook-signature: one signature per secret, in the file's order.
func (s signer) sign(id string, at time.Time, body []byte) (string, error) {
	if strings.Contains(id, ".") {
		return "", errors.New("signing a webhook: its id holds a full stop")
	}
	signatures := make([]string, len(s.hooks))
	for i, hook := range s.hooks {
		signature, err := hook.Sign(id, at, body)
		if err != nil {
			return "", fmt.Errorf("signing a webhook: %w", err)
		}
		signatures[i] = signature
	}
	return strings.Join(signatures, " "), nil
}
