package changes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"
	"unicode/utf8"

	"bronzeward/cmd/bronzeward/ask"
	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/gateway/httpapi/api"
)

type changesSubmitCmd struct {
	clientFlags
	waitFlags
	Machine []string `short:"n" required:"" name:"machine" placeholder:"NAME" help:"Machine, as talosctl -n spells it; several with --set."`
	File    string   `short:"f" required:"" placeholder:"FILE" help:"The machine configuration, exactly as it shall be applied; - reads it from standard input."`
	Set     string   `placeholder:"NAME" help:"Group the changes of several machines, to be approved in one act."`
	Mode    string   `enum:"no-reboot" default:"no-reboot" help:"How to apply it: no-reboot."`
}

func (s *changesSubmitCmd) Run(ctx context.Context, g *cli.Globals) error {
	if err := s.checkMachines(); err != nil {
		return err
	}
	if err := s.check(); err != nil {
		return err
	}
	text, err := s.text(g)
	if err != nil {
		return err
	}
	a, err := s.open(g)
	if err != nil {
		return err
	}
	defer a.Close()
	var captured []api.Change
	var problems []error
	for _, machine := range s.Machine {
		c, err := a.submit(ctx, api.NewChange{Machine: machine, Configuration: text, Mode: api.NewChangeMode(s.Mode), Set: cli.Given(s.Set)}, !s.Wait && len(s.Machine) == 1)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", machine, err))
			continue
		}
		if s.Set != "" && c.Set != s.Set {
			// A change's set is part of what was proposed; the very same bytes are the same change.
			problems = append(problems, fmt.Errorf("%s: change %s was proposed before and stays in %s: go on with it by its id, or cancel it and submit again",
				machine, c.ID, setNamed(c.Set)))
			continue
		}
		captured = append(captured, c)
	}
	if !s.Wait && g.Output != "table" && len(captured) > 0 {
		var value any = captured
		if s.Set == "" {
			value = captured[0]
		}
		if err := g.Print(value, nil, nil); err != nil {
			return err
		}
	}
	if len(problems) > 0 && len(captured) > 0 {
		problems = append(problems, fmt.Errorf("the set is not whole: %s\ntry: bronzeward changes show --set %s", machinesOf(captured), cli.ShellWord(s.Set)))
	}
	if len(problems) > 0 {
		return errors.Join(problems...)
	}
	if s.Wait {
		return a.applyAll(ctx, captured, s.waitFlags, s.Set != "")
	}
	if len(captured) > 1 && g.Output == "table" {
		fmt.Fprintf(g.Out, "next: bronzeward changes show --set %s\n", cli.ShellWord(s.Set))
	}
	return nil
}

func (s *changesSubmitCmd) checkMachines() error {
	sorted := slices.Sorted(slices.Values(s.Machine))
	switch {
	case slices.Contains(sorted, ""):
		return cli.Usage(errors.New("-n names a machine that has no name"))
	case len(slices.Compact(slices.Clone(sorted))) < len(sorted):
		return cli.Usage(errors.New("-n names a machine twice"))
	case len(sorted) > 1 && s.Set == "":
		return cli.Usage(errors.New("several machines make a set: give it a name with --set NAME, and it can be approved in one act"))
	}
	return nil
}

// text is the configuration byte for byte. JSON carries UTF-8 only, and so does the API.
func (s *changesSubmitCmd) text(g *cli.Globals) (string, error) {
	raw, err := g.Configuration(s.File)
	if err == nil && !utf8.Valid(raw) {
		err = cli.Usage(fmt.Errorf("reading the configuration: %s is not UTF-8", s.File))
	}
	return string(raw), err
}

// submit proposes one change and says so; with next, it says what comes then, too.
func (a *apiClient) submit(ctx context.Context, one api.NewChange, next bool) (api.Change, error) {
	defer a.Busy("proposing a change of %s", one.Machine)()
	c, said, err := ask.Received[api.Change](a.SubmitChange(ctx, nil, one))
	if err != nil || a.Output != "table" {
		return c, err
	}
	what := "captured"
	if said.Status == http.StatusOK {
		what = "there already, with these very bytes"
	}
	fmt.Fprintf(a.Out, "change %s for %s is %s (decision %s)\n", c.ID, c.Machine, what, said.Decision)
	if said.Status == http.StatusOK {
		fmt.Fprintf(a.Out, "  asked by %s%s\n", ask.Person(c.Requester), inSet(&c))
	}
	fmt.Fprintf(a.Out, "  values changed: %s; %s\n", valuesChanged(&c, "not known"), needs(&c, said.Now))
	if !next {
		return c, nil
	}
	step := "show"
	if c.State == api.ChangeStateApproved {
		step = "apply"
	}
	fmt.Fprintf(a.Out, "  next: bronzeward changes %s %s\n", step, c.ID)
	return c, nil
}

// inSet says which set a change is in; nothing when it is in none.
func inSet(c *api.Change) string {
	if c.Set == "" {
		return ""
	}
	return ", in set " + cli.ASCII(c.Set)
}

// setNamed is a set as a sentence names it.
func setNamed(set string) string {
	if set == "" {
		return "no set"
	}
	return "set " + cli.ASCII(set)
}

// needs says what a live change waits for, and how long.
func needs(c *api.Change, now time.Time) string {
	switch c.State {
	case api.ChangeStateWaiting:
		return fmt.Sprintf("waits for approvals, %s so far, good for %s", needed(c), goodFor(c, now))
	case api.ChangeStateApproved:
		return fmt.Sprintf("approved, good for %s", goodFor(c, now))
	}
	return ended(c)
}
