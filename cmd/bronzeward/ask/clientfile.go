package ask

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v4"

	"bronzeward/cmd/bronzeward/cli"
)

// File is ~/.config/bronzeward/client.yaml: who a person is and which gateway they
// ask, so that no command needs to be told. All keys may be left out. It names files and
// holds no secret.
type File struct {
	Server      string `yaml:"server"`
	ServerCA    string `yaml:"server_ca"`
	Certificate string `yaml:"certificate"`
	Key         string `yaml:"key"`
	TokenFile   string `yaml:"token_file"`
}

// FilePath is where the file is looked for; empty for somebody without a home.
func FilePath() string {
	dir, err := os.UserConfigDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "bronzeward", "client.yaml")
}

// ReadFile reads the file, if there is one. Files it names are relative to its own
// folder. What is wrong in it is named with its line, all at once.
func ReadFile() (File, string, error) {
	var f File
	path := FilePath()
	if path == "" {
		return f, "", nil
	}
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return f, path, nil
	}
	if err != nil {
		return f, path, cli.Usage(fmt.Errorf("reading the client file: %w", err))
	}
	f, err = ParseFile(raw, path)
	return f, path, err
}

// ParseFile reads what is in the file at path.
func ParseFile(raw []byte, path string) (File, error) {
	var f File
	if len(bytes.TrimSpace(raw)) == 0 {
		return f, nil
	}
	if err := yaml.Load(raw, &f, yaml.WithKnownFields(true), yaml.WithUniqueKeys(true)); err != nil && !CommentsOnly(raw) {
		return f, cli.Usage(fmt.Errorf("%s: %w", path, FileProblems(err)))
	}
	for _, name := range []*string{&f.ServerCA, &f.Certificate, &f.Key, &f.TokenFile} {
		if *name != "" && !filepath.IsAbs(*name) {
			*name = filepath.Join(filepath.Dir(path), *name)
		}
	}
	return f, nil
}

// FileProblems says what the YAML library found, in words and with lines.
func FileProblems(err error) error {
	var many *yaml.LoadErrors
	if !errors.As(err, &many) {
		return errors.New(cli.YAMLProblem(err.Error()))
	}
	var problems []error
	for _, one := range many.Errors {
		text := cli.YAMLProblem(one.Err.Error())
		if strings.HasPrefix(text, "unknown key") {
			text += " (the keys are server, server_ca, certificate, key and token_file)"
		}
		problems = append(problems, fmt.Errorf("line %d: %s", one.Line, text))
	}
	return errors.Join(problems...)
}

// ServerURL reads the address of a gateway. It is always asked over TLS; a bare HOST:PORT is
// taken as such.
func ServerURL(text string) (string, error) {
	whole := text
	if !strings.Contains(text, "://") {
		whole = "https://" + text
	}
	u, err := url.Parse(whole)
	switch {
	case err != nil, u.Host == "":
		return "", fmt.Errorf("the gateway's address %q does not read as https://HOST:PORT", text)
	case u.Scheme != "https":
		return "", fmt.Errorf("the gateway's address %q is not https: it is asked over TLS only", text)
	case u.User != nil:
		return "", errors.New("the gateway's address names a user or password; a credential is given by certificate or token")
	case u.RawQuery != "" || u.Fragment != "":
		return "", fmt.Errorf("the gateway's address %q has something behind the path; it reads https://HOST:PORT", text)
	}
	return u.String(), nil
}

// CommentsOnly is true for a file that says nothing.
func CommentsOnly(raw []byte) bool {
	for line := range bytes.Lines(raw) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			return false
		}
	}
	return true
}
