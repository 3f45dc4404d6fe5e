package ask

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/gateway/httpapi/api"
)

// Answer is what came with a value.
type Answer struct {
	Status int
	// Decision is the entry the request left in the book; empty when it left none.
	Decision string
	// Tag names the content, for asking again.
	Tag string
	// Now is the gateway's clock when it answered: spans of time are told by it, because a
	// person's own clock may be wrong.
	Now time.Time
}

// Received reads an answer as a T, and anything but success as an error. A 304 gives the
// zero value.
func Received[T any](resp *http.Response, err error) (T, Answer, error) {
	var value T
	said, err := receive(resp, err)
	if err != nil || resp.StatusCode == http.StatusNotModified {
		return value, said, err
	}
	decoder := json.NewDecoder(resp.Body)
	decoder.UseNumber() // a number of a configuration is shown as it is written
	if err := decoder.Decode(&value); err != nil {
		return value, said, fmt.Errorf("reading what %s answered: %w", resp.Request.URL.Host, err)
	}
	return value, said, nil
}

// ReceivedBytes gives an answer that is no JSON text as it came, and anything but success as an error.
func ReceivedBytes(resp *http.Response, err error) ([]byte, Answer, error) {
	said, err := receive(resp, err)
	if err != nil {
		return nil, said, err
	}
	body, err := io.ReadAll(resp.Body) // it is in memory
	return body, said, err
}

func receive(resp *http.Response, err error) (Answer, error) {
	if err != nil {
		return Answer{}, err
	}
	said := Answer{
		Status: resp.StatusCode, Decision: resp.Header.Get("Bronzeward-Decision"), Tag: resp.Header.Get("ETag"), Now: time.Now(),
	}
	if at, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		said.Now = at
	}
	if resp.StatusCode != http.StatusNotModified && resp.StatusCode/100 != 2 {
		return said, problemOf(resp)
	}
	return said, nil
}

// ProblemError is a refusal of the API.
type ProblemError struct {
	api.Problem
	// shown says which credential a caller showed who was refused for it.
	shown string
	// later is true when the gateway said that the same may pass later.
	later bool
}

// problemOf is the refusal an answer carries. Whatever does not speak as Bronzeward does is
// not Bronzeward.
func problemOf(resp *http.Response) error {
	var p ProblemError
	body, _ := io.ReadAll(resp.Body) // it is in memory
	if json.Unmarshal(body, &p.Problem) == nil && p.Code != "" {
		p.Status, p.later = resp.StatusCode, resp.Header.Get("Retry-After") != ""
		if resp.StatusCode == http.StatusUnauthorized {
			p.shown, _ = resp.Request.Context().Value(shownKey{}).(string)
		}
		return &p
	}
	err := fmt.Errorf("%s answered %q, and not as Bronzeward does: is that the gateway's http_listen address?", resp.Request.URL.Host, resp.Status)
	if resp.StatusCode == http.StatusBadGateway || resp.StatusCode == http.StatusServiceUnavailable || resp.StatusCode == http.StatusGatewayTimeout {
		return cli.Unavailable(err)
	}
	return err
}

// Error is the refusal as it is read: code, sentence and entry, what else refuses it, and
// what to do.
func (p *ProblemError) Error() string {
	var out strings.Builder
	if p.Status == http.StatusForbidden {
		out.WriteString("DENIED ") // as talosctl shows it
	}
	fmt.Fprintf(&out, "%s: %s", p.Code, cli.OneLine(p.Detail))
	if p.Decision != nil {
		fmt.Fprintf(&out, " (decision %s)", cli.OneLine(*p.Decision))
	}
	if p.Also != nil {
		for _, one := range *p.Also {
			fmt.Fprintf(&out, "\nalso: %s: %s", cli.OneLine(one.Code), cli.OneLine(one.Message))
		}
	}
	if p.shown != "" {
		fmt.Fprintf(&out, "\nyou showed %s", p.shown)
	}
	if p.Hint != nil && *p.Hint != "" {
		out.WriteString("\n" + hintLine(*p.Hint))
	}
	return out.String()
}

// hintLine marks what can be typed.
func hintLine(hint string) string {
	hint = cli.OneLine(hint)
	if strings.HasPrefix(hint, "bronzeward ") || strings.HasPrefix(hint, "talosctl ") {
		return "try: " + hint
	}
	return hint
}

// passing are the codes of what ends some time: what holds a machine or its cluster for a while,
// and the very same request under way.
var passing = []string{
	"BW-HOLDS-001", "BW-HOLDS-002", "BW-HOLDS-003", "BW-HOLDS-004", "BW-HOLDS-005", "BW-HOLDS-007", "BW-ATTEMPT-001", "BW-INVARIANT-011",
}

// Exit is the exit code of a refusal.
func (p *ProblemError) Exit() int {
	if slices.Contains(passing, p.Code) { // whichever door says it, and with whatever status
		return cli.ExitNotYet
	}
	if p.Code == "BW-HOLDS-009" { // a retired machine is held for good
		return cli.ExitFailed
	}
	switch p.Status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return cli.ExitUsage
	case http.StatusUnauthorized, http.StatusForbidden:
		return cli.ExitDenied
	case http.StatusTooManyRequests:
		return cli.ExitNotYet
	case http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return cli.ExitUnavailable
	case http.StatusConflict:
		switch {
		case p.later:
			return cli.ExitNotYet
		case p.Code == "BW-CHANGE-003": // the digest that was looked at is not what there is
			return cli.ExitChanged
		}
	}
	return cli.ExitFailed
}

// IsProblem is true for a refusal with this code.
func IsProblem(err error, code string) bool {
	var p *ProblemError
	return errors.As(err, &p) && p.Code == code
}

// HasStatus is true for a refusal with this HTTP status.
func HasStatus(err error, status int) bool {
	var p *ProblemError
	return errors.As(err, &p) && p.Status == status
}

// Collect asks for items page by page, at most limit of them, or all with limit 0. next is the
// cursor behind the last one, empty when there are no more.
func Collect[T any](limit int, after string, page func(limit int, cursor *string) (items []T, next string, err error)) (all []T, next string, err error) {
	all, next = []T{}, after // a list in JSON, so that a script can walk it
	for {
		size := MostPage
		if limit > 0 {
			size = min(size, limit-len(all))
		}
		var cursor *string
		if next != "" {
			cursor = &next
		}
		items, following, err := page(size, cursor)
		if err != nil {
			return nil, "", err
		}
		all = append(all, items...)
		if following == "" || following == next || limit > 0 && len(all) >= limit {
			return all, following, nil
		}
		next = following
	}
}

// MostPage is how many items the API gives in one page.
const MostPage = 500
