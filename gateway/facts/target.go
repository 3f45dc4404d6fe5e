package facts

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Limits on target metadata. Strangers write it.
const (
	maxTargets   = 64  // machines one call may name
	maxName      = 253 // bytes of one name: the longest DNS name
	maxSpellings = 4 * maxTargets
	maxMetadata  = 16 << 10 // bytes of one metadata key's values together
)

// Targets is what a Call's metadata says about where it goes, as spelled.
type Targets struct {
	// Names are the spellings in their order, without repetition.
	Names []string
	// Form is the metadata key they came in, "node" or "nodes", or empty.
	Form string
	// Cluster is the `context` metadata, empty if there is none.
	Cluster string
}

// ParseTargets reads the metadata keys node, nodes and context as strangers' input:
// trimmed, split on commas, without repetition. No other key is looked at: proxyfrom
// would send a call past the routing, talos-role would raise its rights, and neither
// ever has an effect. Keys are compared as gRPC delivers them, in lower case. Errors
// are *Refusal.
func ParseTargets(md map[string][]string) (Targets, error) {
	node, err := split("node", md["node"])
	if err != nil {
		return Targets{}, err
	}
	nodes, err := split("nodes", md["nodes"])
	if err != nil {
		return Targets{}, err
	}
	cluster, err := single("context", md["context"])
	if err != nil {
		return Targets{}, err
	}

	out := Targets{Cluster: cluster}
	switch {
	case len(md["node"]) > 0 && len(md["nodes"]) > 0:
		return Targets{}, refuse(ReasonTargetForm, "the call names machines as node and as nodes; it must use one of the two").
			hint("talosctl -n MACHINE …")
	case len(md["node"]) > 1:
		return Targets{}, refuse(ReasonTargetForm, "the call has %d node values; node names one machine", len(md["node"])).
			hint("talosctl -n MACHINE …")
	case len(md["node"]) == 1:
		out.Names, out.Form = node, "node"
	case len(md["nodes"]) > 0:
		out.Names, out.Form = nodes, "nodes"
	}
	if out.Form == "node" && len(out.Names) > 1 {
		return Targets{}, refuse(ReasonTargetForm, "node names %d machines; it names one", len(out.Names)).
			hint("talosctl -n MACHINE …")
	}
	return out, nil
}

// split reads one metadata key's values.
func split(key string, values []string) ([]string, error) {
	total := 0
	var out []string
	for _, value := range values {
		if total += len(value); total > maxMetadata {
			return nil, refuse(ReasonMetadata, "the %s metadata has more than %d bytes", key, maxMetadata)
		}
		for part := range strings.SplitSeq(value, ",") {
			name := strings.Trim(part, " \t")
			if name == "" {
				continue
			}
			if err := checkName(key, name); err != nil {
				return nil, err
			}
			if slices.Contains(out, name) {
				continue
			}
			if len(out) == maxSpellings {
				return nil, refuse(ReasonTargetMany, "the call names more than %d machines", maxTargets)
			}
			out = append(out, name)
		}
	}
	return out, nil
}

// single reads a metadata key that has one value or none. The same value repeated is
// one value.
func single(key string, values []string) (string, error) {
	out := ""
	for i, value := range values {
		if len(value) > maxMetadata {
			return "", refuse(ReasonMetadata, "the %s metadata has more than %d bytes", key, maxMetadata)
		}
		name := strings.Trim(value, " \t")
		if name != "" {
			if err := checkName(key, name); err != nil {
				return "", err
			}
		}
		if i > 0 && name != out {
			return "", refuse(ReasonMetadata, "the call has several values of %s", key)
		}
		out = name
	}
	return out, nil
}

func checkName(key, name string) error {
	switch {
	case len(name) > maxName:
		return refuse(ReasonMetadata, "the %s metadata holds a name of %d bytes; names have at most %d", key, len(name), maxName)
	case !utf8.ValidString(name):
		return refuse(ReasonMetadata, "the %s metadata %s is not valid UTF-8", key, escape(name))
	case strings.IndexFunc(name, forbidden) >= 0:
		return refuse(ReasonMetadata, "the %s metadata %s holds characters no machine name has", key, escape(name))
	}
	return nil
}

// forbidden is true for everything outside printable ASCII and for what no name or
// address contains.
func forbidden(r rune) bool {
	return r <= ' ' || r > '~' || strings.ContainsRune("\"'`\\<>{}|^;()&$#!*?=+", r)
}
