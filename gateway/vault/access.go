package vault

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Access is what a login may do at a path, against what the gateway needs there.
type Access struct {
	Path string
	// Want and Has are capabilities, sorted; deny is none.
	Want, Has []string
}

// TooWide is true when the login may do what the gateway never does.
func (a Access) TooWide() bool {
	return slices.ContainsFunc(a.Has, func(have string) bool { return !slices.Contains(a.Want, have) })
}

// Missing is true when the login may not do what the gateway needs.
func (a Access) Missing() bool {
	return slices.ContainsFunc(a.Want, func(want string) bool { return !slices.Contains(a.Has, want) && !slices.Contains(a.Has, "root") })
}

// needed are the capabilities of the gateway's policy by path, in the default mounts' names; a
// test holds it against the shipped HCL.
func needed() map[string][]string {
	out := map[string][]string{
		"bronzeward/metadata/talos/":  {"list"},
		"bronzeward/data/talos/any":   {"read"},
		"bronzeward/data/digest-keys": {"read", "update"},
		"bronzeward/data/ca":          {"read"},
		"bronzeward/data/anchor":      {"create", "read", "update"},

		"transit/datakey/plaintext/" + SealKey: {"update"},
		"transit/decrypt/" + SealKey:           {"update"},
		"transit/encrypt/" + DigestKey:         {"update"},
		"transit/decrypt/" + DigestKey:         {"update"},
		"transit/sign/" + CheckpointKey:        {"update"},
		"transit/sign/" + CAKey + "/sha2-256":  {"update"},
		"auth/token/lookup-self":               {"read"},
		"auth/token/renew-self":                {"update"},
		"auth/token/revoke-self":               {"update"},
		"sys/capabilities-self":                {"update"},
	}
	for _, key := range keyTypes() {
		out["transit/keys/"+key[0]] = []string{"read"}
	}
	return out
}

// forbiddenPaths are places where nothing may be allowed: what would let a stolen login read
// more, keep itself, or destroy keys.
func forbiddenPaths() []string {
	out := []string{
		"bronzeward/metadata/digest-keys", "bronzeward/delete/digest-keys", "bronzeward/destroy/digest-keys",
		"bronzeward/metadata/anchor", "bronzeward/destroy/anchor", "bronzeward/metadata/talos/any", "bronzeward/data/other",
		"transit/keys/another", "transit/encrypt/another", "transit/datakey/plaintext/another", "transit/decrypt/another",
		"sys/policies/acl/bronzeward-gateway", "sys/mounts/another", "sys/auth/another", "sys/seal", "sys/audit/another",
		"auth/token/create", "auth/approle/role/" + GatewayRole + "/secret-id", "identity/entity",
	}
	for _, key := range keyTypes() {
		for _, path := range []string{"keys/" + key[0] + "/config", "keys/" + key[0] + "/rotate", "keys/" + key[0] + "/trim", "backup/" + key[0], "export/encryption-key/" + key[0], "rewrap/" + key[0]} {
			out = append(out, "transit/"+path)
		}
	}
	return out
}

// CheckAccess asks what this client's own login may do at each path that matters, in order. An
// empty answer of the server is an *Error: what is not known is not good.
func CheckAccess(ctx context.Context, c *Client) ([]Access, error) {
	const doing = "looking at what the gateway's login may do"
	want := needed()
	for _, path := range forbiddenPaths() {
		want[path] = nil
	}
	local := strings.NewReplacer("\x00"+DefaultKVMount+"/", c.kv+"/", "\x00"+DefaultTransitMount+"/", c.transit+"/", "\x00", "")
	var out []Access
	paths := make([]string, 0, len(want))
	for _, path := range slices.Sorted(maps.Keys(want)) {
		one := Access{Path: local.Replace("\x00" + path), Want: want[path]}
		out, paths = append(out, one), append(paths, one.Path)
	}
	data, err := c.write(ctx, doing, "sys/capabilities-self", map[string]any{"paths": paths})
	if err != nil {
		return nil, err
	}
	for i, one := range out {
		raw, err := json.Marshal(data[one.Path])
		if err != nil || json.Unmarshal(raw, &out[i].Has) != nil || len(out[i].Has) == 0 {
			return nil, refused(doing, KindMalformed, nil, "OpenBao does not say what may be done at %s", one.Path)
		}
		out[i].Has = slices.DeleteFunc(out[i].Has, func(c string) bool { return c == "deny" })
		slices.Sort(out[i].Has)
	}
	return out, nil
}
