package people

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"bronzeward/cmd/bronzeward/ask"
	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/cmd/bronzeward/ownfile"
)

// Logout removes what login wrote. No gateway is asked.
type Logout struct {
	Server string `group:"server" env:"BRONZEWARD_SERVER" placeholder:"URL" help:"The gateway whose login to remove; default the client file's, or the only one."`
	All    bool   `help:"Remove the logins at all gateways."`
}

// logoutView is what a logout removed.
type logoutView struct {
	Server string    `json:"server"`
	Until  time.Time `json:"until"`
	// Removed says what, in words: files and contexts.
	Removed []string `json:"removed"`
}

func (l *Logout) Run(ctx context.Context, g *cli.Globals) error {
	folders, err := l.folders()
	if err != nil {
		return err
	}
	if len(folders) == 0 {
		return g.Done([]logoutView{}, "nobody is logged in; nothing was removed\n")
	}
	unlock, err := ownfile.LockFolder(ctx, folders[0].state)
	if err != nil {
		return err
	}
	defer unlock()
	views := []logoutView{}
	var problems []error
	out := ""
	for _, folder := range folders {
		view, err := folder.logout()
		views, problems = append(views, view), append(problems, err)
		out += fmt.Sprintf("logged out at %s\n", view.Server)
		for _, one := range view.Removed {
			out += "  removed " + one + "\n"
		}
		if view.Until.After(time.Now()) {
			out += fmt.Sprintf("  a copy of a credential, if there is one, is good until %s at the latest\n", cli.Stamp(&view.Until))
		}
	}
	return errors.Join(g.Done(views, "%s", out), errors.Join(problems...))
}

// folders are those of the logins to remove.
func (l *Logout) folders() ([]loginFolder, error) {
	all, err := logins()
	if err != nil || l.All || len(all) == 0 {
		return all, err
	}
	server := l.Server
	if file, _, err := ask.ReadFile(); server == "" && err == nil {
		server = file.Server
	}
	if server == "" && len(all) == 1 {
		return all, nil
	}
	if server == "" {
		var names []string
		for _, one := range all {
			names = append(names, one.readRecord().Server)
		}
		return nil, cli.Usage(fmt.Errorf("you are logged in at %s: say --server URL or --all", strings.Join(names, ", ")))
	}
	if server, err = ask.ServerURL(server); err != nil {
		return nil, cli.Usage(err)
	}
	wanted, err := loginFolderOf(server)
	if err != nil {
		return nil, err
	}
	for _, one := range all {
		if one.path == wanted.path {
			return []loginFolder{one}, nil
		}
	}
	return nil, nil
}

// logout removes one login: first what names the credential, then the credential and at last
// the record, so that what fails or is cut short is found again by the next one.
func (f loginFolder) logout() (logoutView, error) {
	record := f.readRecord()
	view := logoutView{Server: record.Server, Until: record.Until, Removed: []string{}}
	var problems []error
	for _, place := range record.Places {
		var dropped []string
		err := rewriteThere(place.Talosconfig, func(old []byte) (fresh []byte, err error) {
			fresh, dropped, _, err = dropContexts(old, place.Contexts)
			return fresh, err
		})
		for _, name := range dropped {
			view.Removed = append(view.Removed, fmt.Sprintf("context %s from %s", cli.ASCII(name), place.Talosconfig))
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", place.Talosconfig, err))
		}
	}
	change := clientChange{path: ask.FilePath(), ours: func(path string) bool {
		return path == f.identity() || path == f.token() || path == record.TokenFile
	}}
	if change.path != "" {
		dropped := false
		err := rewriteThere(change.path, func(old []byte) (fresh []byte, err error) {
			fresh, dropped, err = change.forget(old)
			return fresh, err
		})
		if dropped {
			view.Removed = append(view.Removed, "the credential from "+change.path)
		}
		problems = append(problems, err)
	}
	if err := errors.Join(problems...); err != nil {
		return view, errors.Join(fmt.Errorf("not all was removed: %w\ntry: bronzeward logout", err), f.removeSecrets())
	}
	view.Removed = append(view.Removed, f.path)
	return view, f.remove()
}

// rewriteThere is rewrite for a file that need not be there; then nothing is done.
func rewriteThere(path string, edit func(old []byte) ([]byte, error)) error {
	old, err := ownfile.Read(path)
	if err != nil || old == nil {
		return err
	}
	return ownfile.Rewrite(path, edit)
}
