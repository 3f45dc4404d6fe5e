package people

import (
	"fmt"
	"path/filepath"

	"bronzeward/cmd/bronzeward/ask"
	"bronzeward/cmd/bronzeward/cli"
)

// clientChange is what a login or a logout does to the client file.
type clientChange struct {
	path string
	// clientFile is what is to be in it; an empty credential takes the old one away.
	ask.File
	// ours is true for a file that a login wrote or named.
	ours func(path string) bool
	// take makes this the gateway and credential whatever they are now.
	take bool
}

// merge edits the client file. Another gateway's, and a credential that no login wrote, stay
// unless take is true: then left says what stays, and nothing changes.
func (c clientChange) merge(old []byte) (fresh []byte, left string, err error) {
	now, err := ask.ParseFile(old, c.path)
	if err != nil {
		return nil, "", err
	}
	file, err := readYAMLFile(old)
	if err != nil {
		return nil, "", cli.Usage(fmt.Errorf("%s: %w", c.path, err))
	}
	at := now.Server
	if read, err := ask.ServerURL(at); err == nil {
		at = read
	}
	moves := at != "" && at != c.Server
	if moves && !c.take {
		return old, fmt.Sprintf("%s stays with the gateway %s", c.path, now.Server), nil
	}
	for _, named := range []string{now.Certificate, now.Key, now.TokenFile} {
		if named != "" && !c.ours(named) && !c.take {
			return old, fmt.Sprintf("%s stays with its credential, %s, which no login wrote", c.path, named), nil
		}
	}
	put := func(key, was, value string) {
		switch {
		case value == "":
			drop(file.root, key)
		case was != value:
			set(file.root, key, text(value))
		}
	}
	if at != c.Server {
		put("server", now.Server, c.Server)
	}
	if moves || c.ServerCA != "" {
		put("server_ca", now.ServerCA, c.ServerCA)
	}
	put("certificate", now.Certificate, c.Certificate)
	put("key", now.Key, c.Key)
	put("token_file", now.TokenFile, c.TokenFile)
	fresh, err = file.bytes()
	return fresh, "", err
}

// forget takes a login's credential out of the client file; the gateway stays named.
func (c clientChange) forget(old []byte) (fresh []byte, dropped bool, err error) {
	now, err := ask.ParseFile(old, c.path)
	if err != nil {
		return nil, false, err
	}
	file, err := readYAMLFile(old)
	if err != nil {
		return nil, false, cli.Usage(fmt.Errorf("%s: %w", c.path, err))
	}
	for key, named := range map[string]string{"certificate": now.Certificate, "key": now.Key, "token_file": now.TokenFile} {
		if named != "" && c.ours(filepath.Clean(named)) {
			dropped = drop(file.root, key) || dropped
		}
	}
	if !dropped {
		return old, false, nil
	}
	fresh, err = file.bytes()
	return fresh, true, err
}
