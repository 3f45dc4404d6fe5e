package vault

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	policies "bronzeward/deploy/openbao"
	"bronzeward/fixtures/openbao/baotest"

	"github.com/google/go-cmp/cmp"
)

func (h *house) plan(t testing.TB) []Step {
	t.Helper()
	steps, err := Plan(t.Context(), h.operator, h.setup)
	if err != nil {
		t.Fatal(err)
	}
	return steps
}

// notGood are the parts of the plan that are not, as "state: part: detail".
func (h *house) notGood(t testing.TB) (out []string) {
	t.Helper()
	for _, s := range h.plan(t) {
		if s.State != StateGood {
			out = append(out, strings.ReplaceAll(strings.ReplaceAll(fmt.Sprintf("%s: %s: %s", s.State, s.What, s.Detail), h.kv, "KV"), h.transit, "TRANSIT"))
		}
	}
	return out
}

// Setup is cut short after every step and run again: each time it goes on where it was, and in
// the end nothing is made twice.
func TestSetupGoesOnWhereItWasCutShort(t *testing.T) {
	h := bareHouse(t, baotest.Server(t))
	first := h.plan(t)
	for _, s := range first {
		if s.State != StateMissing {
			t.Errorf("of nothing, %s is %s", s.What, s.State)
		}
	}
	done := 0
	for {
		steps := h.plan(t)
		next := slices.IndexFunc(steps, func(s Step) bool { return s.State != StateGood })
		if next < 0 {
			break
		}
		if next != done {
			t.Fatalf("after %d steps, %s is next", done, steps[next].What)
		}
		if err := steps[next].Do(t.Context()); err != nil {
			t.Fatalf("%s: %v", steps[next].What, err)
		}
		done++
	}
	if done != len(first) {
		t.Errorf("%d steps for %d parts", done, len(first))
	}
	// Done again, it changes nothing: not even when every step is done once more.
	before := []any{h.key(t, SealKey).made, h.key(t, DigestKey).made, h.root(t, "GET", h.kv+"/data/"+PathDigestKeys, nil)["data"], h.root(t, "GET", h.kv+"/data/"+PathCA, nil)["data"]}
	for _, s := range h.plan(t) {
		if err := s.Do(t.Context()); err != nil {
			t.Error(err)
		}
	}
	after := []any{h.key(t, SealKey).made, h.key(t, DigestKey).made, h.root(t, "GET", h.kv+"/data/"+PathDigestKeys, nil)["data"], h.root(t, "GET", h.kv+"/data/"+PathCA, nil)["data"]}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Error(diff)
	}
	for _, path := range []string{h.setup.AppRole.RoleIDFile, h.setup.AppRole.SecretIDFile} {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	opens(t, NewSealer(h.gateway(t)), sealWith(t, NewSealer(h.gateway(t)), []byte("text")), []byte("text"))
}

// What is not as it should be, and what the plan says of it. What it can mend, it mends.
func TestThePlanFindsWhatIsNotAsItShouldBe(t *testing.T) {
	setKey := func(name string, values map[string]any) func(*testing.T, *house) {
		return func(t *testing.T, h *house) { h.root(t, "POST", h.transit+"/keys/"+name+"/config", values) }
	}
	role := func(values map[string]any) func(*testing.T, *house) {
		return func(t *testing.T, h *house) {
			h.root(t, "POST", "auth/"+h.setup.AppRole.Mount+"/role/"+GatewayRole, values)
		}
	}
	for name, test := range map[string]struct {
		spoil func(*testing.T, *house)
		want  []string // "state: part: detail", as far as they go
		mends bool
	}{
		"nothing": {func(*testing.T, *house) {}, nil, true},
		"a policy that is too wide": {func(t *testing.T, h *house) {
			h.root(t, "PUT", "sys/policies/acl/"+h.policy(), map[string]any{"policy": h.operator.localPolicy(policies.Gateway) + "\npath \"sys/*\" { capabilities = [\"read\"] }"})
		}, []string{"differs: policy"}, true},
		"a policy that is gone":     {func(t *testing.T, h *house) { h.root(t, "DELETE", "sys/policies/acl/"+h.policy(), nil) }, []string{"missing: policy"}, true},
		"a key that may be deleted": {setKey(SealKey, map[string]any{"deletion_allowed": true}), []string{"differs: Transit key bronzeward-seal (aes256-gcm96): it may be deleted"}, true},
		"a key that may leave":      {setKey(CAKey, map[string]any{"exportable": true}), []string{"wrong: Transit key bronzeward-ca (ecdsa-p256): it can leave OpenBao"}, false},
		"a key with a plain backup": {setKey(SealKey, map[string]any{"allow_plaintext_backup": true}), []string{"wrong: Transit key bronzeward-seal (aes256-gcm96): it can leave OpenBao"}, false},
		"a key of another type":     {func(t *testing.T, h *house) { h.recreate(t, CheckpointKey, "ecdsa-p256") }, []string{"wrong: Transit key bronzeward-checkpoint (ed25519): it is of type ecdsa-p256"}, false},
		"the seal key is gone":      {func(t *testing.T, h *house) { h.drop(t, SealKey) }, []string{"missing: Transit key bronzeward-seal (aes256-gcm96): setup makes it; changes that wait under one that was deleted stay lost"}, true},
		"the key of digest keys":    {func(t *testing.T, h *house) { h.drop(t, DigestKey) }, []string{"wrong: Transit key bronzeward-digest (aes256-gcm96): the digest keys in KV are wrapped by it"}, false},
		"and the digest keys deleted": {func(t *testing.T, h *house) {
			h.drop(t, DigestKey)
			h.root(t, "DELETE", h.kv+"/data/"+PathDigestKeys, nil)
		}, []string{"wrong: Transit key bronzeward-digest", "wrong: digest keys, the first one, at KV/digest-keys: it was deleted: bao kv undelete -mount=KV -versions=1 digest-keys"}, false},
		"digest keys of a key that was recreated": {func(t *testing.T, h *house) { h.recreate(t, DigestKey, "aes256-gcm96") }, []string{"wrong: digest keys, the first one, at KV/digest-keys: k1 is wrapped by a key bronzeward-digest that was recreated"}, false},
		"digest keys below the least version": {func(t *testing.T, h *house) {
			h.rotate(t, DigestKey)
			setKey(DigestKey, map[string]any{"min_decryption_version": 2})(t, h)
		}, []string{"wrong: digest keys, the first one, at KV/digest-keys: k1 is wrapped by version 1 of bronzeward-digest, which OpenBao does not use any more"}, false},
		"digest keys of another shape": {func(t *testing.T, h *house) {
			h.root(t, "POST", h.kv+"/data/"+PathDigestKeys, map[string]any{"data": map[string]any{"keys": map[string]any{}}})
		}, []string{"wrong: digest keys, the first one, at KV/digest-keys: there are 0 digest keys"}, false},
		"the authority's key":                      {func(t *testing.T, h *house) { h.drop(t, CAKey) }, []string{"wrong: Transit key bronzeward-ca (ecdsa-p256): the authority in KV is of it"}, false},
		"an authority of a key that was recreated": {func(t *testing.T, h *house) { h.recreate(t, CAKey, "ecdsa-p256") }, []string{"wrong: authority for people's certificates, at KV/ca: it is of another key than version 1"}, false},
		"an authority that was deleted":            {func(t *testing.T, h *house) { h.root(t, "DELETE", h.kv+"/data/"+PathCA, nil) }, []string{"wrong: authority for people's certificates, at KV/ca: it was deleted"}, false},
		"no authority":                             {func(t *testing.T, h *house) { h.forget(t, PathCA) }, []string{"missing: authority"}, true},
		"a role with more policies":                {role(map[string]any{"token_policies": []string{"gateway", "other"}}), []string{"differs: AppRole bronzeward-gateway: its policies are [gateway other]"}, true},
		"a role with the default policy":           {role(map[string]any{"token_no_default_policy": false}), []string{"differs: AppRole bronzeward-gateway: it gets the policy default besides"}, true},
		"a role without a secret id":               {role(map[string]any{"bind_secret_id": false, "token_bound_cidrs": []string{"127.0.0.1/32"}, "secret_id_bound_cidrs": []string{}}), []string{"differs: AppRole bronzeward-gateway: it lets in without a secret id"}, true},
		"no role": {func(t *testing.T, h *house) {
			h.root(t, "DELETE", "auth/"+h.setup.AppRole.Mount+"/role/"+GatewayRole, nil)
		}, []string{"missing: AppRole bronzeward-gateway"}, true},
		"no file": {func(t *testing.T, h *house) {
			if err := os.Remove(h.setup.AppRole.SecretIDFile); err != nil {
				t.Fatal(err)
			}
		}, []string{"missing: file with the secret id"}, true},
		"a secret id that others may read": {func(t *testing.T, h *house) {
			if err := os.Chmod(h.setup.AppRole.SecretIDFile, 0o640); err != nil {
				t.Fatal(err)
			}
			_, err := Open(t.Context(), h.config(t, *h.setup.AppRole))
			wantError(t, err, ErrRefused, KindMalformed, "", "may be read by others (mode 0640)")
		}, []string{"wrong: file with the secret id"}, false},
		"digest keys that were destroyed": {func(t *testing.T, h *house) {
			h.root(t, "PUT", h.kv+"/destroy/"+PathDigestKeys, map[string]any{"versions": []int{1}})
		}, []string{"wrong: digest keys, the first one, at KV/digest-keys: it was destroyed: restore OpenBao"}, false},
		"another method where AppRole belongs": {func(t *testing.T, h *house) {
			h.root(t, "DELETE", "sys/auth/"+h.setup.AppRole.Mount, nil)
			h.root(t, "POST", "sys/auth/"+h.setup.AppRole.Mount, map[string]any{"type": "userpass"})
		}, []string{"wrong: auth method KV-approle (approle): it is of type userpass", "missing: AppRole"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, baotest.Server(t))
			test.spoil(t, h)
			got := h.notGood(t)
			if len(got) != len(test.want) {
				t.Fatalf("got %q, want %q", got, test.want)
			}
			for i := range got {
				if !strings.HasPrefix(got[i], test.want[i]) {
					t.Errorf("got %q, want %q", got[i], test.want[i])
				}
			}
			if test.mends {
				h.run(t)
				if left := h.notGood(t); left != nil {
					t.Errorf("left: %q", left)
				}
				return
			}
			for _, s := range h.plan(t) {
				if s.State == StateWrong {
					if err := s.Do(t.Context()); kindOf(err) != KindMalformed {
						t.Errorf("doing %s: %v", s.What, err)
					}
				}
			}
			if diff := cmp.Diff(got, h.notGood(t)); diff != "" {
				t.Errorf("something was done: %s", diff)
			}
		})
	}
}

// Mounts that are there already and are something else are not touched.
func TestThePlanLeavesOtherMountsAlone(t *testing.T) {
	for name, test := range map[string]struct {
		kind  map[string]any
		words string
	}{
		"KV of version 1":  {map[string]any{"type": "kv", "options": map[string]any{"version": "1"}}, "version 1; bao kv enable-versioning"},
		"KV of no version": {map[string]any{"type": "kv"}, "version 1; bao kv enable-versioning"},
		"another engine":   {map[string]any{"type": "transit"}, "something of type transit is mounted there"},
	} {
		t.Run(name, func(t *testing.T) {
			h := bareHouse(t, baotest.Server(t))
			h.root(t, "POST", "sys/mounts/"+h.kv, test.kind)
			steps, err := Plan(t.Context(), h.operator, h.setup)
			if err != nil {
				// What lies below a wrong mount need not be readable; the mount is what counts.
				t.Fatal(err)
			}
			if steps[0].State != StateWrong || !strings.Contains(steps[0].Detail, test.words) {
				t.Errorf("got %s: %s", steps[0].State, steps[0].Detail)
			}
			if err := steps[0].Do(t.Context()); err == nil {
				t.Error("it was done")
			}
		})
	}
}

// A token that may not look is an error, and never a plan that something is missing.
func TestThePlanNeedsRights(t *testing.T) {
	h := newHouse(t, baotest.Server(t))
	c, err := OpenWithToken(h.config(t, nil), h.token(t, "1h"), "")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	steps, err := Plan(t.Context(), c, h.setup)
	if steps != nil {
		t.Error("there is a plan")
	}
	wantError(t, err, ErrRefused, KindForbidden, "", "403")
}

// parsePolicy reads the shipped HCL as far as it is written: path "x" { capabilities = ["y"] }.
func parsePolicy(t testing.TB, hcl string) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	line := regexp.MustCompile(`^path "([^"]+)" \{ capabilities = \[([^\]]*)\] \}$`)
	for text := range strings.Lines(hcl) {
		text = strings.TrimSpace(text)
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		m := line.FindStringSubmatch(text)
		if m == nil {
			t.Fatalf("not understood: %s", text)
		}
		var capabilities []string
		for _, one := range strings.Split(m[2], ",") {
			capabilities = append(capabilities, strings.Trim(one, ` "`))
		}
		slices.Sort(capabilities)
		if _, twice := out[m[1]]; twice {
			t.Errorf("%s is there twice", m[1])
		}
		out[m[1]] = capabilities
	}
	return out
}

func TestWhatIsNeededIsWhatIsShipped(t *testing.T) {
	shipped := map[string][]string{}
	for path, capabilities := range parsePolicy(t, policies.Gateway) {
		shipped[strings.Replace(path, "+", "any", 1)] = capabilities
	}
	if diff := cmp.Diff(shipped, needed()); diff != "" {
		t.Error(diff)
	}
	for _, path := range forbiddenPaths() {
		if _, is := needed()[path]; is {
			t.Errorf("%s is needed and forbidden", path)
		}
	}
	operator := slices.Sorted(maps.Keys(parsePolicy(t, policies.Operator)))
	if diff := cmp.Diff([]string{"bronzeward/data/ca", "bronzeward/data/talos/+", "bronzeward/metadata/talos/", "bronzeward/metadata/talos/+"}, operator); diff != "" {
		t.Error(diff)
	}
}

// The gateway's own login may do what it needs and nothing else; a policy beside it shows.
func TestTheAccessOfTheGatewaysLogin(t *testing.T) {
	t.Parallel()
	h := newHouse(t, baotest.Server(t))
	check := func() (missing, wide []string) {
		t.Helper()
		all, err := CheckAccess(t.Context(), h.gateway(t))
		if err != nil {
			t.Fatal(err)
		}
		if len(all) != len(needed())+len(forbiddenPaths()) {
			t.Errorf("%d paths were looked at", len(all))
		}
		for _, a := range all {
			path := strings.ReplaceAll(strings.ReplaceAll(a.Path, h.kv, "KV"), h.transit, "TRANSIT")
			if a.Missing() {
				missing = append(missing, path)
			}
			if a.TooWide() {
				wide = append(wide, path)
			}
		}
		return missing, wide
	}
	if missing, wide := check(); missing != nil || wide != nil {
		t.Errorf("missing %v, too wide %v", missing, wide)
	}
	hcl := h.operator.localPolicy(policies.Gateway)
	set := func(hcl string) {
		h.root(t, "PUT", "sys/policies/acl/"+h.policy(), map[string]any{"policy": hcl})
	}
	set(hcl + fmt.Sprintf("\npath %q { capabilities = [\"read\"] }\n", h.transit+"/export/*"))
	if missing, wide := check(); missing != nil || len(wide) != len(keyTypes()) || !strings.HasPrefix(wide[0], "TRANSIT/export/") {
		t.Errorf("missing %v, too wide %v", missing, wide)
	}
	set(strings.Replace(hcl, `data/ca" { capabilities = ["read"] }`, `data/ca" { capabilities = ["update"] }`, 1))
	if missing, wide := check(); !slices.Equal(missing, []string{"KV/data/ca"}) || !slices.Equal(wide, []string{"KV/data/ca"}) {
		t.Errorf("missing %v, too wide %v", missing, wide)
	}
	set(`path "*" { capabilities = ["create", "read", "update", "delete", "list", "sudo"] }`)
	if _, wide := check(); len(wide) != len(needed())+len(forbiddenPaths()) {
		t.Errorf("%d paths are too wide", len(wide))
	}
	all, err := CheckAccess(t.Context(), h.operator)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if a.Missing() || !a.TooWide() {
			t.Errorf("root at %s: missing %v, too wide %v", a.Path, a.Missing(), a.TooWide())
		}
	}
	set(strings.Replace(hcl, "sys/capabilities-self", "sys/capabilities", 1))
	if _, err := CheckAccess(t.Context(), h.gateway(t)); kindOf(err) != KindForbidden {
		t.Errorf("a login that may not look: %v", err)
	}
}

// Every capability of the shipped policy is needed: without any one of them, something that the
// gateway does is refused.
func TestEveryLineOfThePolicyIsNeeded(t *testing.T) {
	t.Parallel()
	h := newHouse(t, baotest.Server(t))
	h.putCredential(t, "east", 1)
	full := h.operator.localPolicy(policies.Gateway)
	work := func(t *testing.T, c *Client) error {
		ctx := t.Context()
		text := []byte("text")
		s, d, a := NewSealer(c), NewDigestKeys(c, nil), NewAuthority(c, nil)
		sealed, err := s.Seal(ctx, text, nil)
		if err != nil {
			return err
		}
		if _, err := s.Open(ctx, sealed, nil); err != nil {
			return err
		}
		if _, err := d.Load(ctx, nil); err != nil {
			return err
		}
		if _, _, err := d.Add(ctx); err != nil {
			return err
		}
		if err := a.Refresh(ctx); err != nil {
			return err
		}
		template, key := person(t, 1)
		if _, err := a.Issue(ctx, template, key.Public()); err != nil {
			return err
		}
		creds := NewCredentials(CredentialsConfig{Client: c, Parse: parsing(anyCredential), MaxAge: 1 << 62})
		if err := creds.Refresh(ctx); err != nil {
			return err
		}
		if _, err := creds.Get("east"); err != nil {
			return err
		}
		signer := NewCheckpointSigner(c)
		if _, _, err := signer.Sign(ctx, text); err != nil {
			return err
		}
		if _, err := signer.PublicKeys(ctx); err != nil {
			return err
		}
		anchors := NewAnchors(c)
		h.forgetIfThere(t, PathAnchor)
		for range 2 { // begun, and written over
			_, over, err := anchors.Read(ctx)
			if err != nil {
				return err
			}
			if _, err := anchors.Write(ctx, Anchor{Epoch: "e"}, over); err != nil {
				return err
			}
		}
		if _, err := c.renew(ctx, c.api); err != nil {
			return err
		}
		if _, err := CheckAccess(ctx, c); err != nil {
			return err
		}
		// The key's description tells a recreated key from an altered envelope.
		if _, err := a.key.info(ctx, "looking"); err != nil {
			return err
		}
		if err := c.api.Auth().Token().RevokeSelfWithContext(ctx, ""); err != nil {
			return err
		}
		// A token that is gone is noticed and replaced.
		if _, err := s.Open(ctx, sealed, nil); err != nil {
			return err
		}
		client, _ := c.current()
		if !isForbiddenOnlyWhenUnknown(ctx, client) {
			return fmt.Errorf("a token that is known looks unknown")
		}
		return nil
	}
	set := func(t *testing.T, hcl string) {
		h.root(t, "PUT", "sys/policies/acl/"+h.policy(), map[string]any{"policy": hcl})
	}
	set(t, full)
	if err := work(t, h.gateway(t)); err != nil {
		t.Fatalf("with the whole policy: %v", err)
	}
	for path, capabilities := range parsePolicy(t, full) {
		for _, without := range capabilities {
			t.Run(strings.NewReplacer(h.kv, "KV", h.transit, "TRANSIT", "/", ".").Replace(path)+" without "+without, func(t *testing.T) {
				left := slices.DeleteFunc(slices.Clone(capabilities), func(c string) bool { return c == without })
				old := regexp.MustCompile(`(?m)^path "` + regexp.QuoteMeta(path) + `".*$`)
				line := ""
				if len(left) > 0 {
					line = fmt.Sprintf(`path %q { capabilities = ["%s"] }`, path, strings.Join(left, `", "`))
				}
				set(t, old.ReplaceAllString(full, line))
				if err := work(t, h.gateway(t)); err == nil {
					t.Error("everything works without it")
				}
			})
		}
	}
}
