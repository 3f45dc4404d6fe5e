package config

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"

	"bronzeward/policy"
)

var keyIDShape = regexp.MustCompile(`^[A-Za-z0-9._-]{1,100}$`)

// LawKeys are the pinned keys of policy.keys. Every problem is in the error, joined, each with its key.
func (c *Config) LawKeys() (policy.Keys, error) {
	out := policy.Keys{}
	var errs []error
	for _, id := range slices.Sorted(maps.Keys(c.Policy.Keys)) {
		k := c.Policy.Keys[id]
		raw, err := os.ReadFile(c.Path(k.File))
		key := policy.Key{Algorithm: k.Algorithm, PEM: string(raw)}
		switch {
		case !keyIDShape.MatchString(id):
			err = fmt.Errorf("%q is no id of a key: letters, digits, dots, dashes", id)
		case k.File == "":
			err = errors.New("names no file with a public key")
		case err == nil:
			err = key.Check()
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("policy.keys.%s: %w", id, err))
		}
		out[id] = key
	}
	return out, errors.Join(errs...)
}
