package vault

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"

	"github.com/openbao/openbao/api/v2"
)

// Paths below the KV mount.
const (
	PathTalos      = "talos"
	PathDigestKeys = "digest-keys"
	PathCA         = "ca"
	PathAnchor     = "anchor"
)

// get reads the newest version at a path of the KV mount into a struct of strings and numbers,
// and gives its version. What was deleted is KindMissing, like what never was.
func (c *Client) get(ctx context.Context, doing, path string, into any) (version int, err error) {
	err = c.ask(ctx, doing, func(ctx context.Context, client *api.Client) error {
		secret, err := client.KVv2(c.kv).Get(ctx, path)
		switch {
		case err != nil:
			return err
		case secret.Data == nil || secret.VersionMetadata == nil:
			return api.ErrSecretNotFound
		}
		version = secret.VersionMetadata.Version
		raw, err := json.Marshal(secret.Data)
		if err != nil || json.Unmarshal(raw, into) != nil {
			// The decoder's own words may quote a value.
			return refused(doing, KindMalformed, nil, "what is at %s/%s has another shape", c.kv, path)
		}
		return nil
	})
	return version, err
}

// anyVersion writes over whatever is there.
const anyVersion = -1

// put writes a new version when the newest is still the one that was read (check-and-set; 0:
// there never was one, not even one that is deleted now), and gives the new one's number.
// KindMoved says that it is not, and that nothing was written: an answer that was lost and asked
// for once more is told from somebody else's writing by reading what is there.
func (c *Client) put(ctx context.Context, doing, path string, value any, over int) (version int, err error) {
	raw, err := json.Marshal(value)
	if err != nil {
		return 0, err
	}
	var data map[string]any
	if err := json.Unmarshal(raw, &data); err != nil {
		return 0, err
	}
	var options []api.KVOption
	if over != anyVersion {
		options = append(options, api.WithCheckAndSet(over))
	}
	err = c.ask(ctx, doing, func(ctx context.Context, client *api.Client) error {
		secret, err := client.KVv2(c.kv).Put(ctx, path, data, options...)
		if err != nil {
			return err
		}
		if secret.VersionMetadata == nil {
			return errors.New("no version")
		}
		version = secret.VersionMetadata.Version
		return nil
	})
	if over != anyVersion && kindOf(err) == KindMoved {
		var there map[string]any
		if now, asked := c.get(ctx, doing, path, &there); asked == nil && now == over+1 && reflect.DeepEqual(there, data) {
			return now, nil
		}
	}
	return version, err
}

// everWas is whether anything was written to a path of the KV mount, deleted or not, for
// operators: metadata go only when somebody removes them too.
func (c *Client) everWas(ctx context.Context, doing, path string) (bool, error) {
	_, err := c.read(ctx, doing, c.kv+"/metadata/"+path)
	if kindOf(err) == KindMissing {
		return false, nil
	}
	return err == nil, err
}

// list gives the names below a path of the KV mount, none when there is nothing.
func (c *Client) list(ctx context.Context, doing, path string) (names []string, err error) {
	err = c.ask(ctx, doing, func(ctx context.Context, client *api.Client) error {
		names = nil
		secret, err := client.Logical().ListWithContext(ctx, c.kv+"/metadata/"+path)
		if err != nil || secret == nil {
			return err
		}
		keys, ok := secret.Data["keys"].([]any)
		if !ok {
			return refused(doing, KindMalformed, nil, "the list of %s/%s has another shape", c.kv, path)
		}
		for _, key := range keys {
			if name, ok := key.(string); ok {
				names = append(names, name)
			}
		}
		return nil
	})
	return names, err
}
