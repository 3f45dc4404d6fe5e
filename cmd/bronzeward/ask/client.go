package ask

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"

	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/gateway/httpapi/apiclient"
)

// Flags say which gateway a command asks, and who asks. Flags come before the
// environment, and both before the client file.
type Flags struct {
	ServerFlags

	CredentialFlags `group:"server"`
}

// ServerFlags say which gateway is asked.
type ServerFlags struct {
	Server   string `group:"server" env:"BRONZEWARD_SERVER" placeholder:"URL" help:"The gateway's HTTP address, such as https://gate.example:9443."`
	ServerCA string `group:"server" name:"server-ca" env:"BRONZEWARD_SERVER_CA" placeholder:"FILE" help:"CA certificates that vouch for the gateway; default the system's."`
}

// Settings is what flags, environment and client file come to.
type Settings struct {
	Server, ServerCA                   string
	Certificate, key, tokenFile, token string
	// File is where the client file is, or would be; empty without a home.
	File string
	// From says where the credential was named, for a person whose credential is refused;
	// made says it whole for one that was not named but got in this run.
	From, Made string
}

// settings reads the client file and lays environment and flags over it. The credential is
// taken whole: one that is named by a flag or the environment leaves the file's alone, so
// that two people's are never shown together.
func (f Flags) settings() (Settings, error) {
	file, path, err := ReadFile()
	if err != nil {
		return Settings{}, err
	}
	s := Settings{
		Server: cmp.Or(f.Server, file.Server), ServerCA: cmp.Or(f.ServerCA, file.ServerCA),
		Certificate: f.Certificate, key: f.Key, tokenFile: f.TokenFile, token: strings.TrimSpace(os.Getenv("BRONZEWARD_TOKEN")),
		File: path, From: "the flags or the environment",
	}
	if !s.hasCredential() {
		s.Certificate, s.key, s.tokenFile, s.From = file.Certificate, file.Key, file.TokenFile, path
	}
	where := cmp.Or(path, "client.yaml")
	var problems []error
	if (s.Certificate == "") != (s.key == "") {
		problems = append(problems, fmt.Errorf("a certificate and its key go together (--certificate and --key, BRONZEWARD_CERTIFICATE and BRONZEWARD_KEY, or `certificate` and `key` in %s)", where))
	}
	if !s.hasCredential() {
		problems = append(problems, fmt.Errorf("log in: %s\nor, as this command is recorded under your name, give --certificate and --key (or BRONZEWARD_CERTIFICATE and BRONZEWARD_KEY), --token-file or BRONZEWARD_TOKEN, or write `certificate` and `key`, or `token_file`, into %s", LoginAt(s.Server), where))
	}
	if s.Server == "" {
		problems = append(problems, fmt.Errorf("no gateway is named: give --server https://HOST:PORT, set BRONZEWARD_SERVER, or write `server: https://HOST:PORT` into %s", where))
	} else if s.Server, err = ServerURL(s.Server); err != nil {
		problems = append(problems, err)
	}
	if err := errors.Join(problems...); err != nil {
		return Settings{}, cli.Usage(err)
	}
	return s, nil
}

// LoginAt is the command to log in with at a gateway, named or not.
// An address that does not read as one is not repeated: it may hold a password.
func LoginAt(server string) string {
	if _, err := ServerURL(server); server == "" || err != nil {
		return "bronzeward login --server https://HOST:PORT"
	}
	return "bronzeward login --server " + cli.ShellWord(server)
}

func (s *Settings) hasCredential() bool {
	return s.Certificate != "" || s.key != "" || s.tokenFile != "" || s.token != ""
}

// shown says which credential was shown, never what is in it.
func (s *Settings) shown() string {
	if s.Made != "" {
		return s.Made
	}
	var parts []string
	if s.Certificate != "" {
		parts = append(parts, "the certificate in "+s.Certificate)
	}
	switch {
	case s.tokenFile != "":
		parts = append(parts, "the token in "+s.tokenFile)
	case s.token != "":
		parts = append(parts, "the token in BRONZEWARD_TOKEN")
	}
	return fmt.Sprintf("%s, named by %s", strings.Join(parts, " and "), s.From)
}

// CredentialFlags say who runs a command that acts. The same credentials open the
// gateway: a token, a certificate of the gateway's own authority, or both.
type CredentialFlags struct {
	TokenFile   string `env:"BRONZEWARD_TOKEN_FILE" placeholder:"FILE" help:"File with your token; BRONZEWARD_TOKEN holds the token itself."`
	Certificate string `env:"BRONZEWARD_CERTIFICATE" placeholder:"FILE" help:"Your client certificate."`
	Key         string `env:"BRONZEWARD_KEY" placeholder:"FILE" help:"The key of your client certificate."`
}

// OrFile is the credential of the client file, which a login wrote, where no flag and nothing in the
// environment names one.
func (f CredentialFlags) OrFile() (CredentialFlags, error) {
	if f != (CredentialFlags{}) || strings.TrimSpace(os.Getenv("BRONZEWARD_TOKEN")) != "" {
		return f, nil
	}
	file, _, err := ReadFile()
	if err != nil {
		return f, err
	}
	return CredentialFlags{TokenFile: file.TokenFile, Certificate: file.Certificate, Key: file.Key}, nil
}

// Client asks one gateway as one person.
type Client struct {
	*apiclient.Client
	*cli.Globals
	Asker *Asker
}

// Open readies the client; nothing is sent yet.
func (f Flags) Open(g *cli.Globals) (*Client, error) {
	settings, err := f.settings()
	if err != nil {
		return nil, err
	}
	s, err := New(settings, g)
	if err != nil {
		return nil, err
	}
	client, err := apiclient.NewClient(settings.Server, apiclient.WithHTTPClient(s))
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("reading --server: %w", err))
	}
	return &Client{Client: client, Globals: g, Asker: s}, nil
}

// Close gives connections back.
func (a *Client) Close() { a.Asker.Client.CloseIdleConnections() }

// Busy shows what the command waits for until the function it gives is called.
func (a *Client) Busy(format string, args ...any) func() {
	return a.Asker.Progress.Begin(fmt.Sprintf(format, args...))
}
