package people

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"go.yaml.in/yaml/v4"

	"bronzeward/cmd/bronzeward/cli"
)

// talosContext is one context of a talosconfig: where talosctl goes and what it shows there.
// A certificate and its key are shown, or a token as the password of basic authentication.
type talosContext struct {
	name      string
	endpoints []string
	// cluster is sent with every call; empty sends none.
	cluster string
	// ca vouches for the endpoints, PEM; empty leaves it to the system.
	ca []byte
	// certificate and key, PEM; both or neither.
	certificate, key []byte
	// username and token; the gateway reads the token alone.
	username, token string
}

// talosconfigPath is the file that talosctl would write: the one named, TALOSCONFIG's (which
// kong has read into it), or config in TALOS_HOME or ~/.talos.
func talosconfigPath(named string) (string, error) {
	if named != "" {
		path, err := filepath.Abs(named)
		if err != nil {
			return "", cli.Usage(fmt.Errorf("reading --talosconfig: %w", err))
		}
		return path, nil
	}
	if folder := os.Getenv("TALOS_HOME"); filepath.IsAbs(folder) {
		return filepath.Join(folder, "config"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", cli.Usage(errors.New("you have no home folder for a talosconfig: say --talosconfig FILE or set TALOSCONFIG"))
	}
	return filepath.Join(home, ".talos", "config"), nil
}

// talosconfig is a talosconfig that is being edited.
type talosconfig struct {
	file     *yamlFile
	contexts *yaml.Node
}

// readTalosconfig reads what is in one; null gives an empty one. Errors name lines, never
// what stands on them.
func readTalosconfig(raw []byte) (*talosconfig, error) {
	file, err := readYAMLFile(raw)
	if err != nil {
		return nil, err
	}
	t := &talosconfig{file: file, contexts: get(file.root, "contexts")}
	if t.contexts == nil || isNull(t.contexts) {
		t.contexts = mapping()
		if get(file.root, "context") == nil {
			set(file.root, "context", text(""))
		}
		set(file.root, "contexts", t.contexts)
	}
	if t.contexts.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("line %d: `contexts` does not hold contexts by their names", t.contexts.Line)
	}
	if current := get(file.root, "context"); current != nil && current.Kind != yaml.ScalarNode {
		return nil, fmt.Errorf("line %d: `context` is not a name", current.Line)
	}
	return t, nil
}

// current is the context that talosctl takes by itself; empty when it names none there is.
func (t *talosconfig) current() string {
	name := getText(t.file.root, "context")
	if name == "" || get(t.contexts, name) == nil {
		return ""
	}
	return name
}

// taken are the names among these that a login did not write.
func (t *talosconfig) taken(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		there := get(t.contexts, name)
		return there == nil || isNull(there) || there.Kind == yaml.MappingNode && len(there.Content) == 0 || issuedHere(there)
	})
}

// issuedHere is true for a context with what a gateway issues or takes: a person's certificate
// or a token. Whoever loses one logs in again; an administrator's certificate may be the only
// one there is.
func issuedHere(there *yaml.Node) bool {
	if token := getText(get(get(there, "auth"), "basic"), "password"); token != "" && getText(there, "crt") == "" {
		_, err := claimsOf(token)
		return err == nil
	}
	raw, err := base64.StdEncoding.DecodeString(getText(there, "crt"))
	if err != nil {
		return false
	}
	block, _ := pem.Decode(raw)
	if block == nil {
		return false
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return false
	}
	_, err = personOf(certificate)
	return err == nil
}

// put writes a context. Of one that is there under its name, what a login knows nothing of
// stays, such as its nodes; the ways round the gateway go: other endpoints and credentials.
func (t *talosconfig) put(c talosContext) {
	there := get(t.contexts, c.name)
	if there == nil || there.Kind != yaml.MappingNode {
		there = mapping()
		set(t.contexts, c.name, there)
	}
	encoded := func(key string, value []byte) {
		if len(value) == 0 {
			drop(there, key)
			return
		}
		set(there, key, text(base64.StdEncoding.EncodeToString(value)))
	}
	drop(there, "target") // an endpoint, as old talosctl wrote it
	set(there, "endpoints", texts(c.endpoints))
	encoded("ca", c.ca)
	encoded("crt", c.certificate)
	encoded("key", c.key)
	drop(there, "auth")
	if c.token != "" {
		basic, auth := mapping(), mapping()
		set(basic, "username", text(c.username))
		set(basic, "password", text(c.token))
		set(auth, "basic", basic)
		set(there, "auth", auth)
	}
	drop(there, "cluster")
	if c.cluster != "" {
		set(there, "cluster", text(c.cluster))
	}
}

// mergeTalosconfig puts contexts into a talosconfig. The current one stays, unless there was
// none or take is true. Contexts that no login wrote stay too: they are an error, unless
// overwrite is true.
func mergeTalosconfig(old []byte, contexts []talosContext, take, overwrite bool) (fresh []byte, current string, err error) {
	t, err := readTalosconfig(old)
	if err != nil {
		return nil, "", err
	}
	var wanted []string
	for _, c := range contexts {
		wanted = append(wanted, c.name)
	}
	if taken := t.taken(wanted); len(taken) > 0 && !overwrite {
		return nil, "", takenError(taken)
	}
	for _, c := range contexts {
		t.put(c)
	}
	if take || t.current() == "" {
		set(t.file.root, "context", text(wanted[0]))
	}
	fresh, err = t.file.bytes()
	return fresh, t.current(), err
}

// takenError says that contexts hold what no login wrote.
func takenError(taken []string) error {
	return fmt.Errorf("context %s holds a credential that no login wrote, and it would be lost: give yours another name with --context NAME, or replace it with --overwrite", cli.ASCII(taken[0]))
}

// dropContexts takes those of these contexts away that a login wrote.
func dropContexts(old []byte, names []string) (fresh []byte, dropped []string, current string, err error) {
	t, err := readTalosconfig(old)
	if err != nil {
		return nil, nil, "", err
	}
	for _, name := range names {
		if there := get(t.contexts, name); there != nil && issuedHere(there) {
			drop(t.contexts, name)
			dropped = append(dropped, name)
		}
	}
	if len(dropped) == 0 {
		return old, nil, t.current(), nil
	}
	if t.current() == "" {
		set(t.file.root, "context", text(""))
	}
	fresh, err = t.file.bytes()
	return fresh, dropped, t.current(), err
}
