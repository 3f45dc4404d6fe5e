package policy

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
)

// calendarFaults says what is wrong with the windows and freezes of a bundle's data, at
// the line of the entry. The law refuses every apply that such an entry may concern; who
// checks the bundle first learns of it before anybody is refused.
func calendarFaults(b *Bundle) []Fault {
	var out []Fault
	for _, f := range b.files {
		if !isData(f.Path) {
			continue
		}
		var doc yaml.Node
		if yaml.Unmarshal(f.Body, &doc) != nil || len(doc.Content) == 0 {
			continue // what cannot be read as data has a fault of its own
		}
		root := doc.Content[0]
		switch path.Dir(f.Path) {
		case ".":
			root = nodeMember(root, "bronzeward")
		case "bronzeward":
		default:
			continue
		}
		for _, calendar := range []string{"windows", "freezes"} {
			list := nodeMember(root, calendar)
			if list == nil {
				continue
			}
			fault := func(at *yaml.Node, text string) {
				out = append(out, Fault{File: f.Path, Line: at.Line, Message: calendar + ": " + text})
			}
			if list.Kind != yaml.SequenceNode {
				fault(list, "this is no list")
				continue
			}
			for _, entry := range list.Content {
				for _, text := range entryFaults(resolved(entry), calendar == "freezes") {
					fault(entry, text)
				}
			}
		}
	}
	return out
}

var (
	timeOfDay = regexp.MustCompile(`^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$`)
	laterYear = regexp.MustCompile(`^2[0-9]{3}-`)
)

// entryFaults are the sentences about one window or freeze; none for a good one.
func entryFaults(entry *yaml.Node, freeze bool) []string {
	if entry.Kind != yaml.MappingNode {
		return []string{"an entry is a map with name, clusters, from, to and zone"}
	}
	var out []string
	fault := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	known := []string{"name", "clusters", "days", "from", "to", "zone"}
	if freeze {
		known = append(known, "overriders")
	}
	for i := 0; i < len(entry.Content); i += 2 {
		if key := entry.Content[i].Value; !slices.Contains(known, key) {
			fault("%q is no key of an entry; there are %s", key, strings.Join(known, ", "))
		}
	}
	if name, ok := nodeText(nodeMember(entry, "name")); !ok || name == "" {
		fault("the entry has no name")
	}
	if len(nodeTexts(nodeMember(entry, "clusters"))) == 0 {
		fault("clusters is a list of at least one cluster's name")
	}
	zone, ok := nodeText(nodeMember(entry, "zone"))
	if _, err := time.LoadLocation(zone); !ok || err != nil || zone == "" || zone == "Local" {
		fault("%q is no time zone, such as UTC or Europe/Berlin", zone)
	}
	out = append(out, timeFaults(entry)...)
	if who := nodeMember(entry, "overriders"); freeze && !nodeNull(who) {
		out = append(out, overriderFaults(who)...)
	}
	return out
}

// timeFaults looks at an entry that comes every week, which has days, or else once.
func timeFaults(entry *yaml.Node) []string {
	var out []string
	fault := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	from, _ := nodeText(nodeMember(entry, "from"))
	to, _ := nodeText(nodeMember(entry, "to"))
	days := nodeMember(entry, "days")
	if nodeNull(days) {
		for _, at := range []string{from, to} {
			if _, err := time.Parse("2006-01-02 15:04", at); err != nil || !laterYear.MatchString(at) {
				fault("%q is no day with its time, such as \"2026-05-09 22:00\" in quotes; an entry that comes every week has days", at)
			}
		}
		if len(out) == 0 && from >= to {
			fault("it ends at %s, which is not after %s", to, from)
		}
		return out
	}
	named := nodeTexts(days)
	if len(named) == 0 {
		fault("days is a list of at least one day of the week")
	}
	for _, day := range named {
		if !weekday(day) {
			fault("%q is no day of the week, such as Monday", day)
		}
	}
	for _, at := range []string{from, to} {
		if !timeOfDay.MatchString(at) {
			fault("%q is no time of day, such as \"09:30\" in quotes", at)
		}
	}
	if from == "24:00" || from == to {
		fault("it begins at %s and ends at %s, and so never is", from, to)
	}
	return out
}

func overriderFaults(who *yaml.Node) []string {
	var out []string
	if who.Kind != yaml.MappingNode {
		return []string{"overriders is a map with people and groups"}
	}
	for i := 0; i < len(who.Content); i += 2 {
		key, list := who.Content[i].Value, resolved(who.Content[i+1])
		switch {
		case key != "people" && key != "groups":
			out = append(out, fmt.Sprintf("%q is no key of overriders; there are people and groups", key))
		case list.Kind != yaml.SequenceNode:
			out = append(out, key+" is a list")
		case key == "groups":
			if names := nodeTexts(list); len(names) != len(list.Content) || slices.Contains(names, "") {
				out = append(out, "groups is a list of names")
			}
		default:
			for _, person := range list.Content {
				_, issuer := nodeText(nodeMember(person, "issuer"))
				_, subject := nodeText(nodeMember(person, "subject"))
				if !issuer || !subject || len(person.Content) != 4 {
					out = append(out, "a person has an issuer and a subject, and nothing else")
				}
			}
		}
	}
	return out
}

// nodeMember is a value of a map, nil where there is none.
func nodeMember(of *yaml.Node, key string) *yaml.Node {
	if of = resolved(of); of == nil || of.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(of.Content); i += 2 {
		if of.Content[i].Value == key {
			return resolved(of.Content[i+1])
		}
	}
	return nil
}

// resolved follows an alias.
func resolved(n *yaml.Node) *yaml.Node {
	for n != nil && n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

func nodeNull(n *yaml.Node) bool { return n == nil || n.Tag == "!!null" }

// nodeText is a node's text, and whether it is a string: a number or a date is none.
func nodeText(n *yaml.Node) (string, bool) {
	if n = resolved(n); n == nil || n.Kind != yaml.ScalarNode {
		return "", false
	}
	return n.Value, n.Tag == "!!str"
}

// nodeTexts are the strings of a list; nil when it is none or holds anything else.
func nodeTexts(n *yaml.Node) []string {
	if n == nil || n.Kind != yaml.SequenceNode {
		return nil
	}
	var out []string
	for _, e := range n.Content {
		s, ok := nodeText(e)
		if !ok {
			return nil
		}
		out = append(out, s)
	}
	return out
}

func weekday(name string) bool {
	for d := time.Sunday; d <= time.Saturday; d++ {
		if d.String() == name {
			return true
		}
	}
	return false
}
