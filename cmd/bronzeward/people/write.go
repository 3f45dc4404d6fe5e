package people

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"bronzeward/cmd/bronzeward/ask"
	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/cmd/bronzeward/ownfile"
)

// loginView is what a login wrote, as -o json and yaml show it. It holds no secret.
type loginView struct {
	Server string `json:"server"`
	// Proof is certificate or token.
	Proof    string        `json:"proof"`
	Identity loginIdentity `json:"identity"`
	Until    time.Time     `json:"until"`
	Serial   string        `json:"serial,omitempty"`
	Decision string        `json:"decision,omitempty"`
	// File holds the certificate and key, or the token.
	File           string   `json:"file"`
	Talosconfig    string   `json:"talosconfig"`
	Contexts       []string `json:"contexts"`
	CurrentContext string   `json:"current_context"`
	// ClientFile is empty when it was left as it is.
	ClientFile string `json:"client_file"`
}

// write puts the credential where it is looked for. Other runs of this program wait. Each
// file is written whole; a crash between two leaves a login that the next one completes and
// that logout takes away, because what is going to be written is noted first.
func (r *loginRun) write(ctx context.Context, got loginCredential) error {
	unlock, err := ownfile.LockFolder(ctx, r.folder.state)
	if err != nil {
		return err
	}
	defer unlock()
	view := loginView{
		Server: r.asker.Settings.Server, Proof: "certificate", Identity: got.identity, Until: got.until, Serial: got.serial,
		Decision: got.entry, Talosconfig: r.talosconfig, File: r.folder.identity(),
	}
	before := r.folder.readRecord()
	record := before
	record.Server, record.TokenFile, record.Until = view.Server, got.tokenFile, latest(got.until, before.Until)
	if got.issuer != "" {
		record.Issuer, record.IssuerCA = got.issuer, ""
		if r.IssuerCA != "" {
			if record.IssuerCA, err = filepath.Abs(r.IssuerCA); err != nil {
				return cli.Usage(fmt.Errorf("reading the issuer's CA (--issuer-ca): %w", err))
			}
		}
	}
	for i := range r.contexts {
		c := &r.contexts[i]
		c.certificate, c.key, c.token, c.username = got.certificate, got.key, got.token, username(got.identity.Subject)
		view.Contexts = append(view.Contexts, c.name)
	}
	record.add(r.talosconfig, view.Contexts)
	if err := r.folder.writeRecord(record); err != nil {
		return err
	}
	// Ended here, logout looks for contexts that were not written, and finds none.
	if got.token != "" {
		view.Proof, view.File = "token", got.tokenFile
	}
	if view.File == "" {
		view.File = r.folder.token()
	}
	if err := r.writeCredential(got); err != nil {
		return err
	}
	// Ended here, nothing names the new credential, or the client file names the new content.
	err = ownfile.Rewrite(r.talosconfig, func(old []byte) (fresh []byte, err error) {
		fresh, view.CurrentContext, err = mergeTalosconfig(old, r.contexts, r.SetCurrent, r.Overwrite)
		if err != nil {
			return nil, cli.Usage(fmt.Errorf("%s: %w", r.talosconfig, err))
		}
		return fresh, nil
	})
	if err != nil {
		return fmt.Errorf("%w\nwhat you got is in %s; `bronzeward logout` removes it", err, r.folder.path)
	}
	// Ended here, talosctl works, and this program asks as whom it did before.
	if err := r.writeClientFile(before, got, &view); err != nil {
		return fmt.Errorf("%w\ntalosctl is set up, bronzeward is not; `bronzeward logout` removes what was written", err)
	}
	return r.say(view)
}

// writeCredential replaces this program's own copy, and takes one of the other kind away.
func (r *loginRun) writeCredential(got loginCredential) error {
	file, content, other := r.folder.identity(), append(bytes.Clone(got.certificate), got.key...), r.folder.token()
	if got.token != "" {
		file, content, other = other, []byte(got.token+"\n"), file
	}
	if got.tokenFile == "" {
		if err := ownfile.Rewrite(file, func([]byte) ([]byte, error) { return content, nil }); err != nil {
			return err
		}
	}
	if err := os.Remove(other); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing what the last login left: %w", err)
	}
	return nil
}

func (r *loginRun) writeClientFile(before loginRecord, got loginCredential, view *loginView) error {
	change := clientChange{path: r.asker.Settings.File, take: r.SetCurrent, ours: func(path string) bool {
		return r.folder.wrote(path) || path == before.TokenFile || path == got.tokenFile
	}}
	if change.path == "" {
		fmt.Fprintln(r.ErrOut, "warning: you have no configuration folder, so bronzeward is not set up: set XDG_CONFIG_HOME or HOME")
		return nil
	}
	change.File = ask.File{Server: view.Server, ServerCA: r.asker.Settings.ServerCA}
	if view.Proof == "token" {
		change.TokenFile = view.File
	} else {
		change.Certificate, change.Key = view.File, view.File
	}
	left := ""
	err := ownfile.Rewrite(change.path, func(old []byte) (fresh []byte, err error) {
		fresh, left, err = change.merge(old)
		return fresh, err
	})
	if err != nil {
		return err
	}
	if left == "" {
		view.ClientFile = change.path
	} else {
		fmt.Fprintf(r.ErrOut, "warning: %s: bronzeward's other commands ask as before; to change that: bronzeward login --set-current\n", left)
	}
	for _, name := range []string{"BRONZEWARD_CERTIFICATE", "BRONZEWARD_KEY", "BRONZEWARD_TOKEN_FILE", tokenVariable} {
		if os.Getenv(name) != "" {
			fmt.Fprintf(r.ErrOut, "warning: %s is set, and comes before what was written for bronzeward's other commands\n", name)
		}
	}
	return nil
}

// username is what basic authentication shows beside a token. The gateway does not read it;
// a colon would end it early.
func username(subject string) string {
	if !isName(subject) || strings.Contains(subject, ":") || cli.ASCII(subject) != subject {
		return "token"
	}
	return subject
}

// say tells what was written, until when it is good, and what to do next.
func (r *loginRun) say(v loginView) error {
	groups := "in no group"
	if len(v.Identity.Groups) > 0 {
		groups = "in " + strings.Join(v.Identity.Groups, ", ")
	}
	until := "which does not say until when it is good"
	if !v.Until.IsZero() {
		until = fmt.Sprintf("good until %s (for %s)", cli.Stamp(&v.Until), cli.Span(v.Until.Sub(r.now)))
	}
	out := fmt.Sprintf("you are %s of %s, %s, by a %s %s", cli.ASCII(v.Identity.Subject), cli.ASCII(v.Identity.Issuer), cli.OneLine(groups), v.Proof, until)
	if v.Decision != "" {
		out += fmt.Sprintf(" (decision %s)", cli.OneLine(v.Decision))
	}
	word := "context"
	if len(v.Contexts) > 1 {
		word = "contexts"
	}
	out += fmt.Sprintf("\n  talosctl    %s %s in %s", word, cli.ASCII(strings.Join(v.Contexts, ", ")), v.Talosconfig)
	if v.Contexts[0] != v.CurrentContext {
		out += fmt.Sprintf("; the current one stays %s", cli.ASCII(v.CurrentContext))
	}
	if v.ClientFile != "" {
		out += "\n  bronzeward  " + v.ClientFile
	}
	if v.Proof == "token" {
		out += "\n  the talosconfig holds a copy of the token: log in again with the next one"
	}
	return r.Done(v, "%s\ntry: %s\n", out, r.next(v))
}

// next is a command that works now.
func (r *loginRun) next(v loginView) string {
	out := "talosctl"
	usual, err := talosconfigPath(os.Getenv("TALOSCONFIG"))
	if err != nil || filepath.Clean(usual) != filepath.Clean(v.Talosconfig) {
		out += " --talosconfig " + cli.ShellWord(v.Talosconfig)
	}
	if v.Contexts[0] != v.CurrentContext {
		out += " --context " + cli.ShellWord(v.Contexts[0])
	}
	return out + " -n MACHINE version"
}
