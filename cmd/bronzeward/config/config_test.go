package config

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/cmd/bronzeward/clitest"
	"bronzeward/cmd/bronzeward/exitcode"
	"bronzeward/gateway/httpapi"
)

func TestAGoodConfigurationGetsItsDefaults(t *testing.T) {
	folder, text := clitest.GoodConfig(t)
	cfg, err := Load(clitest.WriteConfig(t, folder, text))
	if err != nil {
		t.Fatal(err)
	}
	got := []any{
		cfg.TLS.MinVersion, cfg.Digest.Scheme, cfg.Log.Level, cfg.Log.Format, cfg.Database.MaxConnections, cfg.Apply.SettleFloor,
		cfg.Path(cfg.TLS.Key), cfg.Path("/elsewhere"),
	}
	want := []any{"1.3", "hmac-sha256", "info", "text", 16, 30 * time.Second, filepath.Join(folder, "server.key"), "/elsewhere"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("defaults and paths (-want +got):\n%s", diff)
	}
}

func TestEveryProblemIsNamedAtOnce(t *testing.T) {
	folder, text := clitest.GoodConfig(t)
	text = strings.Replace(text, "listen: 127.0.0.1:50000", "lisen: 127.0.0.1:50000", 1)
	text = strings.Replace(text, "server.key", "nosuch.key", 1)
	text += "log: {level: info warn, format: xml, colour: red}\napply: {settle_floor: 5s, transport_deadline: soon}\n"
	_, err := Load(clitest.WriteConfig(t, folder, text))
	if err == nil {
		t.Fatal("it was taken")
	}
	_, list, _ := strings.Cut(err.Error(), "config.yaml: ")
	want := []string{
		"7 problems:",
		`line 2: unknown key "lisen"`,
		`line 9: unknown key "colour"`,
		"line 10: this must be a duration, such as 30s",
		"tls.key: stat " + filepath.Join(folder, "nosuch.key") + ": no such file or directory",
		"apply.settle_floor: 5s is less than 30s; it may only be raised",
		`log.level: "info warn" is not debug, info, warn or error`,
		`log.format: "xml" is neither text nor json`,
	}
	if diff := cmp.Diff(want, strings.Split(list, "\n")); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

func TestOneProblemOfAConfiguration(t *testing.T) {
	for name, row := range map[string]struct {
		old, fresh string
		want       string
	}{
		"a key twice":               {"instance: g1\n", "instance: g1\ninstance: g2\n", `line 2: mapping key "instance" already defined at line 1`},
		"a text for a map":          {"tls: {certificate: server.crt, key: server.key}", "tls: server", "line 4: this must be a map of keys"},
		"a text for a list":         {"[people.crt]", "people.crt", "line 6: this must be a list"},
		"no port":                   {"127.0.0.1:50000", "127.0.0.1", `listen: "127.0.0.1" is not host:port`},
		"no certificate":            {"certificate: server.crt, ", "", "tls.certificate: is required"},
		"an old TLS":                {"key: server.key", "key: server.key, min_version: '1.1'", `tls.min_version: "1.1" is neither 1.2 nor 1.3`},
		"no database":               {`url: "postgres://gateway@localhost/bronzeward", `, "", "database.url: is required"},
		"nobody could call":         {"{certificate_authorities: [people.crt]}", "{}", "identity: needs certificate_authorities, issuers or both"},
		"a token for anybody":       {"[people.crt]", "[people.crt], issuers: [{issuer: 'https://i'}]", "identity.issuers[0].audience: is required"},
		"much skew":                 {"[people.crt]", "[people.crt], clock_skew: 50m", "identity.clock_skew: 50m0s is not between 0s and 5m0s"},
		"a long certificate":        {"[people.crt]", "[people.crt], certificate_lifetime: 25h", "identity.certificate_lifetime: 25h0m0s is not between 1m0s and 24h0m0s"},
		"a short certificate":       {"[people.crt]", "[people.crt], certificate_lifetime: 1s", "identity.certificate_lifetime: 1s is not between"},
		"an endpoint's half":        {"instance: g1\n", "instance: g1\nlogin: {talos_endpoints: ['gate:50000', gate]}\n", `login.talos_endpoints[1]: "gate" is not HOST:PORT`},
		"an endpoint of no host":    {"instance: g1\n", "instance: g1\nlogin: {talos_endpoints: [':50000']}\n", `login.talos_endpoints[0]: ":50000" is not HOST:PORT`},
		"an endpoint of no port":    {"instance: g1\n", "instance: g1\nlogin: {talos_endpoints: ['gate:0']}\n", `login.talos_endpoints[0]: "0" is not a port`},
		"an empty denial":           {"[people.crt]", "[people.crt], deny: [{}]", "identity.deny[0]: is empty"},
		"a denial of half a name":   {"[people.crt]", "[people.crt], deny: [{subject: olga}]", "identity.deny[0].subject: needs the issuer too"},
		"a key's half":              {"[people.crt]", "[people.crt], deny: [{spki: abcd}]", "identity.deny[0].spki: is not 64 hex digits"},
		"two digest settings":       {"{keys_file: keys-development.json}", "{scheme: sha256, keys_file: x}", "digest.keys_file: is not used with scheme sha256"},
		"an unknown digest":         {"{keys_file: keys-development.json}", "{scheme: md5}", `digest.scheme: "md5" is neither`},
		"a negative limit":          {"instance: g1\n", "instance: g1\nlimits: {calls_per_second: -3}\n", "limits.calls_per_second: -3 is not between"},
		"no number for a limit":     {"instance: g1\n", "instance: g1\nlimits: {calls_per_second: .nan}\n", "limits.calls_per_second: NaN is not between"},
		"checkpoints too often":     {"instance: g1\n", "instance: g1\nbook: {checkpoint_every: 10ms}\n", "book.checkpoint_every: 10ms is not between 1s and 1h0m0s"},
		"checkpoints too seldom":    {"instance: g1\n", "instance: g1\nbook: {checkpoint_every: 2h}\n", "book.checkpoint_every: 2h0m0s is not between 1s and 1h0m0s"},
		"no key of the book":        {"instance: g1\n", "instance: g1\nbook: {checkpoint_each: 2s}\n", "unknown key \"checkpoint_each\""},
		"a balancer by its name":    {"instance: g1\n", "instance: g1\nproxy_protocol: {sources: [10.0.0.1, lb.example]}\n", `proxy_protocol.sources[1]: "lb.example" is neither an address nor a prefix`},
		"everybody a balancer":      {"instance: g1\n", "instance: g1\nproxy_protocol: {sources: ['::/0']}\n", "proxy_protocol.sources[0]: is everybody"},
		"a balancer's own bits":     {"instance: g1\n", "instance: g1\nproxy_protocol: {sources: [10.0.0.9/28]}\n", "write 10.0.0.0/28, or 10.0.0.9 for that one address"},
		"a balancer on a link":      {"instance: g1\n", "instance: g1\nproxy_protocol: {sources: ['fe80::1%eth0']}\n", "has a zone"},
		"IPv4 written as IPv6":      {"instance: g1\n", "instance: g1\nproxy_protocol: {sources: ['::ffff:10.0.0.0/120']}\n", "write the IPv4 prefix"},
		"no key for laws in a file": {"instance: g1\n", "instance: g1\npolicy: {keys: {a: {algorithm: RS256, file: server.key}}}\n", "policy.keys.a: the file holds no key in PEM"},
		"a shared key for laws":     {"instance: g1\n", "instance: g1\npolicy: {keys: {2026: {algorithm: HS256, file: server.key}}}\n", "policy.keys.2026: algorithm \"HS256\" is none of"},
		"a key in no file":          {"instance: g1\n", "instance: g1\npolicy: {keys: {a: {algorithm: ES256}}}\n", "policy.keys.a: names no file"},
		"much time for a policy":    {"instance: g1\n", "instance: g1\npolicy: {budget: 1h}\n", "policy.budget: 1h0m0s is not between"},
	} {
		t.Run(name, func(t *testing.T) {
			folder, text := clitest.GoodConfig(t)
			if !strings.Contains(text, row.old) {
				t.Fatalf("there is no %q to spoil", row.old)
			}
			_, err := Load(clitest.WriteConfig(t, folder, strings.Replace(text, row.old, row.fresh, 1)))
			if err == nil || !strings.Contains(err.Error(), row.want) || exitcode.Of(err) != cli.ExitUsage {
				t.Errorf("got %v, want %q", err, row.want)
			}
		})
	}
}

func TestSourcesOfAHeaderAreComparedAsAddresses(t *testing.T) {
	folder, text := clitest.GoodConfig(t)
	cfg, err := Load(clitest.WriteConfig(t, folder, text+"proxy_protocol: {sources: [10.0.0.7, '::ffff:10.0.0.8', 10.1.0.0/28, '2001:db8::/64']}\n"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range cfg.ProxySources() {
		got = append(got, p.String())
	}
	if diff := cmp.Diff([]string{"10.0.0.7/32", "10.0.0.8/32", "10.1.0.0/28", "2001:db8::/64"}, got); diff != "" {
		t.Errorf("sources (-want +got):\n%s", diff)
	}
}

func TestWhatALoginIsTold(t *testing.T) {
	folder, text := clitest.GoodConfig(t)
	text = strings.Replace(text, "[people.crt]", `[people.crt], certificate_lifetime: 4h, issuers: [
  {issuer: 'https://people', audience: [bronzeward, other]},
  {issuer: 'https://more', audience: [bronzeward], client_id: cli},
  {issuer: 'https://robots', audience: [bronzeward], kind: automation}]`, 1) + "login: {talos_endpoints: ['gate.example:50000', '[::1]:50000']}\n"
	cfg, err := Load(clitest.WriteConfig(t, folder, text))
	if err != nil {
		t.Fatal(err)
	}
	want := httpapi.Login{
		Issuers: []httpapi.LoginIssuer{
			{Issuer: "https://people", ClientID: "bronzeward", Audience: []string{"bronzeward", "other"}},
			{Issuer: "https://more", ClientID: "cli", Audience: []string{"bronzeward"}},
		},
		TalosEndpoints: []string{"gate.example:50000", "[::1]:50000"},
	}
	if diff := cmp.Diff(want, cfg.LoginOffer()); diff != "" || cfg.Identity.CertificateLifetime != 4*time.Hour {
		t.Error(diff, cfg.Identity.CertificateLifetime)
	}
	folder, text = clitest.GoodConfig(t)
	if cfg, err = Load(clitest.WriteConfig(t, folder, text)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(httpapi.Login{}, cfg.LoginOffer()); diff != "" {
		t.Error(diff)
	}
}

func TestAFileThatIsNoConfigurationIsOneProblem(t *testing.T) {
	for name, row := range map[string]struct{ text, want string }{
		"empty":         {" \n", "the file is empty"},
		"two documents": {"instance: a\n---\ninstance: b\n", "expected single document"},
		"no YAML":       {"instance: [\n", "line 1"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Load(clitest.WriteConfig(t, t.TempDir(), row.text))
			if err == nil || !strings.Contains(err.Error(), row.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want one line with %q", err, row.want)
			}
		})
	}
}

func TestAPasswordInTheConfigurationIsRefusedAndNotRepeated(t *testing.T) {
	for name, row := range map[string]struct{ dsn, want string }{
		"in the URL":         {"postgres://gateway:hunter2@localhost/b", "holds a password"},
		"empty in the URL":   {"postgres://gateway:@localhost/b", "holds a password"},
		"as a parameter":     {"postgres://gateway@localhost/b?password=hunter2", "holds a password"},
		"in the other name":  {"postgresql://gateway:hunter2@localhost/b", "holds a password"},
		"in a URL of rubble": {"postgres://gateway:hun%ter2@localhost/b", "is not a PostgreSQL connection string"},
		"among the words":    {"host=localhost user=gateway password=hunter2", "holds a password"},
		"with spaces":        {"host=localhost PassWord = hunter2", "holds a password"},
		"in rubble":          {"gateway hunter2", "is not a PostgreSQL connection string"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, key := range []string{"url", "owner_url", "auditor_url"} {
				folder, text := clitest.GoodConfig(t)
				at := strings.Index(text, "database:")
				text = text[:at] + "database: {" + key + ": '" + row.dsn + "'}\n" + text[at+strings.Index(text[at:], "\n")+1:]
				_, err := Load(clitest.WriteConfig(t, folder, text))
				if err == nil || !strings.Contains(err.Error(), "database."+key+": "+row.want) {
					t.Errorf("%s: got %v, want %q", key, err, row.want)
				}
				if err != nil && strings.Contains(err.Error(), "hun") {
					t.Errorf("%s: the password is repeated: %v", key, err)
				}
			}
		})
	}
}

func TestASecretInTheWrongPlaceIsNotRepeated(t *testing.T) {
	folder, text := clitest.GoodConfig(t)
	text = strings.Replace(text, "tls: {certificate: server.crt, key: server.key}", "tls: hunter2", 1)
	_, err := Load(clitest.WriteConfig(t, folder, text))
	if err == nil || strings.Contains(err.Error(), "hunt") {
		t.Errorf("got %v", err)
	}
}

// FuzzLoadConfig holds that no file makes the reader panic, and that what it takes has
// no password in it.
func FuzzLoadConfig(f *testing.F) {
	for _, text := range []string{"", "instance: a", "- a", "a: &x [*x]", "database: {url: 'postgres://a:b@c/d'}", "log: {level: \x00}"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		cfg := &Config{}
		if _, readable := readYAML([]byte(text), cfg); !readable {
			return
		}
		cfg.withDefaults()
		for _, p := range cfg.problems() {
			if p.Error() == "" {
				t.Error("a problem without words")
			}
		}
	})
}
