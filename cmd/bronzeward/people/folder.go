package people

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/cmd/bronzeward/ownfile"
)

// stateFolder is where logins are kept: they are of this computer, and short-lived.
func stateFolder() (string, error) {
	if folder := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(folder) {
		return filepath.Join(folder, "bronzeward"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", cli.Usage(errors.New("you have no home folder to keep a login in: set XDG_STATE_HOME or HOME"))
	}
	return filepath.Join(home, ".local", "state", "bronzeward"), nil
}

// loginFolder holds the login at one gateway:
//
//	identity.pem   the certificate and its key, in one file so that they are of each other
//	token          instead of it, a token that was not in a file of the person's
//	login.json     what was written where, for the next login and for logout
type loginFolder struct {
	state, path string
}

// loginFolderOf is the folder of a gateway's login.
func loginFolderOf(server string) (loginFolder, error) {
	state, err := stateFolder()
	if err != nil {
		return loginFolder{}, err
	}
	u, err := url.Parse(server)
	if err != nil {
		return loginFolder{}, cli.Usage(fmt.Errorf("reading --server: %w", err))
	}
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '.' {
			return r
		}
		return '_'
	}, strings.ToLower(strings.TrimSuffix(u.Host+u.Path, "/")))
	return loginFolder{state, filepath.Join(state, "logins", "at-"+name)}, nil
}

func (f loginFolder) identity() string { return filepath.Join(f.path, "identity.pem") }
func (f loginFolder) token() string    { return filepath.Join(f.path, "token") }
func (f loginFolder) record() string   { return filepath.Join(f.path, "login.json") }

// wrote is true for a file that some login wrote.
func (f loginFolder) wrote(path string) bool {
	return strings.HasPrefix(path, filepath.Join(f.state, "logins")+string(filepath.Separator))
}

// loginRecord is login.json. It holds no secret.
type loginRecord struct {
	Server string `json:"server"`
	// Until is when the last of the credentials ends that logins here have got: an earlier one
	// may outlive its successor, and copies of it with it.
	Until time.Time `json:"until"`
	// Issuer is where the person logged in last, and IssuerCA the file that vouched for it; both
	// are for the next login, and empty when there was none.
	Issuer   string `json:"issuer,omitempty"`
	IssuerCA string `json:"issuer_ca,omitempty"`
	// TokenFile is a file of the person's that the client file names because of this login.
	TokenFile string       `json:"token_file,omitempty"`
	Places    []loginPlace `json:"places"`
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// loginPlace is a talosconfig and the contexts of this login in it.
type loginPlace struct {
	Talosconfig string   `json:"talosconfig"`
	Contexts    []string `json:"contexts"`
}

// readRecord reads what an earlier login wrote; empty when there was none. One that cannot be
// read counts as none: what it named is found in the files themselves, or was theirs.
func (f loginFolder) readRecord() loginRecord {
	var r loginRecord
	raw, err := ownfile.Read(f.record())
	if err != nil || json.Unmarshal(raw, &r) != nil {
		return loginRecord{}
	}
	return r
}

// add notes contexts in a talosconfig.
func (r *loginRecord) add(talosconfig string, names []string) {
	at := slices.IndexFunc(r.Places, func(p loginPlace) bool { return p.Talosconfig == talosconfig })
	if at < 0 {
		r.Places = append(r.Places, loginPlace{Talosconfig: talosconfig})
		at = len(r.Places) - 1
	}
	p := &r.Places[at]
	p.Contexts = append(p.Contexts, names...)
	slices.Sort(p.Contexts)
	p.Contexts = slices.Compact(p.Contexts)
}

func (f loginFolder) writeRecord(r loginRecord) error {
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("writing what this login wrote: %w", err)
	}
	return ownfile.Rewrite(f.record(), func([]byte) ([]byte, error) { return append(raw, '\n'), nil })
}

// logins are the folders of all logins there are.
func logins() ([]loginFolder, error) {
	state, err := stateFolder()
	if err != nil {
		return nil, err
	}
	all, err := os.ReadDir(filepath.Join(state, "logins"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("looking for logins: %w", err)
	}
	var out []loginFolder
	for _, one := range all {
		if one.IsDir() && strings.HasPrefix(one.Name(), "at-") {
			out = append(out, loginFolder{state, filepath.Join(state, "logins", one.Name())})
		}
	}
	return out, nil
}

// remove takes the login away, the key first.
func (f loginFolder) remove() error {
	if err := f.removeSecrets(); err != nil {
		return err
	}
	for _, path := range []string{f.record(), f.path} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing the login: %w", err)
		}
	}
	return nil
}

// removeSecrets takes key and token away. A file that is not there is gone.
func (f loginFolder) removeSecrets() error {
	for _, path := range []string{f.identity(), f.token()} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing the login: %w", err)
		}
	}
	return nil
}
