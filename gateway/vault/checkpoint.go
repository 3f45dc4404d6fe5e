package vault

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"strings"
)

// CheckpointKey is the Transit key that signs checkpoints of the book.
const CheckpointKey = "bronzeward-checkpoint"

// CheckpointSigner signs with a key that never leaves OpenBao. Safe for concurrent use.
type CheckpointSigner struct {
	client *Client
	key    *transitKey
}

// NewCheckpointSigner asks nothing yet.
func NewCheckpointSigner(c *Client) *CheckpointSigner {
	return &CheckpointSigner{client: c, key: newTransitKey(c, CheckpointKey)}
}

// Sign gives the Ed25519 signature of a message under the latest version of the key, and that
// version. The error is an *Error.
func (s *CheckpointSigner) Sign(ctx context.Context, message []byte) (signature []byte, version int, err error) {
	const doing = "signing a checkpoint"
	data, err := s.client.write(ctx, doing, s.client.transit+"/sign/"+s.key.name, map[string]any{"input": base64.StdEncoding.EncodeToString(message)})
	if err != nil {
		return nil, 0, s.key.diagnose(ctx, doing, 0, 0, err)
	}
	text, _ := data["signature"].(string)
	signature, version, err = parseSignature(text)
	if err != nil || len(signature) != ed25519.SignatureSize {
		return nil, 0, refused(doing, KindMalformed, err, "OpenBao did not give a signature")
	}
	return signature, version, nil
}

// PublicKeys gives the public keys by version: what verifies checkpoints without OpenBao.
func (s *CheckpointSigner) PublicKeys(ctx context.Context) (map[int]ed25519.PublicKey, error) {
	const doing = "reading the checkpoint key"
	info, err := s.key.info(ctx, doing)
	if err != nil {
		return nil, err
	}
	out := make(map[int]ed25519.PublicKey, len(info.publicKeys))
	for version, text := range info.publicKeys {
		raw, err := base64.StdEncoding.DecodeString(text)
		if err != nil || len(raw) != ed25519.PublicKeySize {
			return nil, refused(doing, KindMalformed, err, "the key is not an Ed25519 key")
		}
		out[version] = raw
	}
	return out, nil
}

// parseSignature takes vault:v3:<base64> apart.
func parseSignature(text string) (signature []byte, version int, err error) {
	if version, err = versionOf(text); err != nil {
		return nil, 0, err
	}
	signature, err = base64.StdEncoding.DecodeString(strings.SplitN(text, ":", 3)[2])
	return signature, version, err
}
