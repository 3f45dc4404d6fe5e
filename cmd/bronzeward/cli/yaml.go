package cli

import (
	"fmt"
	"regexp"
	"strings"
)

var (
	unknownKey = regexp.MustCompile(`^field (.*) not found in type`)
	wrongType  = regexp.MustCompile(`^cannot construct !!\w+.* into (\S+)$`)
	ownType    = regexp.MustCompile(`^[a-z]+\.[A-Za-z]`)
)

// YAMLProblem says a problem of the YAML library without Go's types, and without the value
// that stands in the wrong place: it may be a password.
func YAMLProblem(problem string) string {
	if m := unknownKey.FindStringSubmatch(problem); m != nil {
		return fmt.Sprintf("unknown key %q", m[1])
	}
	m := wrongType.FindStringSubmatch(problem)
	switch {
	case m == nil:
		return strings.TrimPrefix(problem, "yaml: ")
	case m[1] == "time.Duration":
		return "this must be a duration, such as 30s"
	case strings.HasPrefix(m[1], "[]"):
		return "this must be a list"
	case ownType.MatchString(m[1]):
		return "this must be a map of keys"
	case m[1] == "string":
		return "this must be text"
	}
	return "this must be a number"
}
