package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"

	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/gateway/httpapi/apiclient"
)

// clientFlags say which gateway a command asks, and who asks. Flags come before the
// environment, and both before the client file.
type clientFlags struct {
	serverFlags

	credentialFlags `group:"server"`
}

// serverFlags say which gateway is asked.
type serverFlags struct {
	Server   string `group:"server" env:"BRONZEWARD_SERVER" placeholder:"URL" help:"The gateway's HTTP address, such as https://gate.example:9443."`
	ServerCA string `group:"server" name:"server-ca" env:"BRONZEWARD_SERVER_CA" placeholder:"FILE" help:"CA certificates that vouch for the gateway; default the system's."`
}

// clientSettings is what flags, environment and client file come to.
type clientSettings struct {
	server, serverCA                   string
	certificate, key, tokenFile, token string
	// file is where the client file is, or would be; empty without a home.
	file string
	// from says where the credential was named, for a person whose credential is refused;
	// made says it whole for one that was not named but got in this run.
	from, made string
}

// settings reads the client file and lays environment and flags over it. The credential is
// taken whole: one that is named by a flag or the environment leaves the file's alone, so
// that two people's are never shown together.
func (f clientFlags) settings() (clientSettings, error) {
	file, path, err := readClientFile()
	if err != nil {
		return clientSettings{}, err
	}
	s := clientSettings{
		server: cmp.Or(f.Server, file.Server), serverCA: cmp.Or(f.ServerCA, file.ServerCA),
		certificate: f.Certificate, key: f.Key, tokenFile: f.TokenFile, token: strings.TrimSpace(os.Getenv("BRONZEWARD_TOKEN")),
		file: path, from: "the flags or the environment",
	}
	if !s.hasCredential() {
		s.certificate, s.key, s.tokenFile, s.from = file.Certificate, file.Key, file.TokenFile, path
	}
	where := cmp.Or(path, "client.yaml")
	var problems []error
	if (s.certificate == "") != (s.key == "") {
		problems = append(problems, fmt.Errorf("a certificate and its key go together (--certificate and --key, BRONZEWARD_CERTIFICATE and BRONZEWARD_KEY, or `certificate` and `key` in %s)", where))
	}
	if !s.hasCredential() {
		problems = append(problems, fmt.Errorf("log in: %s\nor, as this command is recorded under your name, give --certificate and --key (or BRONZEWARD_CERTIFICATE and BRONZEWARD_KEY), --token-file or BRONZEWARD_TOKEN, or write `certificate` and `key`, or `token_file`, into %s", loginAt(s.server), where))
	}
	if s.server == "" {
		problems = append(problems, fmt.Errorf("no gateway is named: give --server https://HOST:PORT, set BRONZEWARD_SERVER, or write `server: https://HOST:PORT` into %s", where))
	} else if s.server, err = serverURL(s.server); err != nil {
		problems = append(problems, err)
	}
	if err := errors.Join(problems...); err != nil {
		return clientSettings{}, cli.Usage(err)
	}
	return s, nil
}

// loginAt is the command to log in with at a gateway, named or not.
// An address that does not read as one is not repeated: it may hold a password.
func loginAt(server string) string {
	if _, err := serverURL(server); server == "" || err != nil {
		return "bronzeward login --server https://HOST:PORT"
	}
	return "bronzeward login --server " + cli.ShellWord(server)
}

func (s *clientSettings) hasCredential() bool {
	return s.certificate != "" || s.key != "" || s.tokenFile != "" || s.token != ""
}

// shown says which credential was shown, never what is in it.
func (s *clientSettings) shown() string {
	if s.made != "" {
		return s.made
	}
	var parts []string
	if s.certificate != "" {
		parts = append(parts, "the certificate in "+s.certificate)
	}
	switch {
	case s.tokenFile != "":
		parts = append(parts, "the token in "+s.tokenFile)
	case s.token != "":
		parts = append(parts, "the token in BRONZEWARD_TOKEN")
	}
	return fmt.Sprintf("%s, named by %s", strings.Join(parts, " and "), s.from)
}

// apiClient asks one gateway as one person.
type apiClient struct {
	*apiclient.Client
	*cli.Globals
	asker *asker
}

// open readies the client; nothing is sent yet.
func (f clientFlags) open(g *cli.Globals) (*apiClient, error) {
	settings, err := f.settings()
	if err != nil {
		return nil, err
	}
	s, err := newAsker(settings, g)
	if err != nil {
		return nil, err
	}
	client, err := apiclient.NewClient(settings.server, apiclient.WithHTTPClient(s))
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("reading --server: %w", err))
	}
	return &apiClient{Client: client, Globals: g, asker: s}, nil
}

// close gives connections back.
func (a *apiClient) close() { a.asker.client.CloseIdleConnections() }

// busy shows what the command waits for until the function it gives is called.
func (a *apiClient) busy(format string, args ...any) func() {
	return a.asker.progress.Begin(fmt.Sprintf(format, args...))
}
