package facts

import (
	"path"
	"strings"
	"unicode/utf8"
)

// Limits on what a request names. Facts hold it, and so does the book.
const (
	maxNamed = 4096 // bytes of one path, service, or part of a resource's name; of all paths of a DiskUsage together
	maxPaths = 64   // paths one DiskUsage may name
)

// exactPath takes a path that is forwarded exactly as it is judged: absolute and in its
// shortest spelling. The node opens the text it is given, so another spelling of an
// allowed file may be another file: `..` behind a symbolic link leads elsewhere than the
// text says.
func exactPath(raw string) (string, error) {
	if err := checkPath(raw); err != nil {
		return "", err
	}
	if raw != clean(raw) {
		return "", refuse(ReasonMalformed, "the path %s is not absolute and without a slash at its end; only exact paths are forwarded", escape(raw))
	}
	return raw, nil
}

// loosePath takes what talosctl's list and usage send besides: no path at all, one that
// begins without a slash, which the node reads from the root, or ends with one. It is
// cleaned for the rules; no step of it leads up.
func loosePath(raw string) (string, error) {
	if raw == "" {
		return "/", nil
	}
	if err := checkPath(raw); err != nil {
		return "", err
	}
	return clean(raw), nil
}

// loosePaths joins the paths of a request that names several with commas, which none of
// them may hold. A rule that allows one path by equality therefore allows no list.
func loosePaths(raw []string) (string, error) {
	if len(raw) == 0 {
		return "/", nil
	}
	if len(raw) > maxPaths {
		return "", refuse(ReasonTooLarge, "the request names %d paths; at most %d are read", len(raw), maxPaths)
	}
	total := 0
	out := make([]string, 0, len(raw))
	for _, one := range raw {
		if total += len(one); total > maxNamed {
			return "", refuse(ReasonTooLarge, "the paths of the request have more than %d bytes together", maxNamed)
		}
		if strings.Contains(one, ",") {
			return "", refuse(ReasonMalformed, "the path %s holds a comma and cannot be told from two", escape(one))
		}
		cleaned, err := loosePath(one)
		if err != nil {
			return "", err
		}
		out = append(out, cleaned)
	}
	return strings.Join(out, ","), nil
}

// checkPath refuses what makes a path mean something else than it says.
func checkPath(raw string) error {
	if err := checkNamed("path", raw); err != nil {
		return err
	}
	parts := strings.TrimSuffix(strings.TrimPrefix(raw, "/"), "/")
	if parts == "" && len(raw) < 2 {
		return nil
	}
	for element := range strings.SplitSeq(parts, "/") {
		if element == "" || element == "." || element == ".." {
			return refuse(ReasonMalformed, "the path %s holds an empty element, a . or a ..; only plain paths are forwarded", escape(raw))
		}
	}
	return nil
}

// checkNamed bounds a name from a request and refuses characters that cannot be shown.
func checkNamed(what, name string) error {
	switch {
	case len(name) > maxNamed:
		return refuse(ReasonTooLarge, "the %s of the request has %d bytes; at most %d are read", what, len(name), maxNamed)
	case !utf8.ValidString(name) || !printable(name):
		return refuse(ReasonMalformed, "the %s %s holds characters that are not printable", what, escape(name))
	}
	return nil
}

// clean makes the path a rule can compare: absolute, without dot segments.
func clean(p string) string { return path.Clean("/" + p) }
