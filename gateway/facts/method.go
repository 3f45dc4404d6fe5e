package facts

import (
	"maps"
	"slices"
	"strings"

	"bronzeward/policy"
)

// Method is one row of the method table.
type Method struct {
	// Name is the full gRPC name with its leading slash.
	Name string
	// Class is what kind of thing the method does. For COSI reads it is the class of
	// harmless types; ParseCall refines it by the resource type asked for.
	Class policy.Class
	// ClientStream is true when the caller may send several messages. Such a call is
	// never judged whole and therefore never forwarded.
	ClientStream bool
	// ServerStream is true when the answer is a stream.
	ServerStream bool
	// Nodes is true when the `nodes` metadata may fan the call out to several machines.
	Nodes bool
	// Reader is true when Talos lets the role os:reader call the method on a running node.
	Reader bool
	// Minors are the Talos minors that serve the method, "1.13".
	Minors []string
}

// In says whether the Talos minor, "1.13", serves the method.
func (m Method) In(minor string) bool { return slices.Contains(m.Minors, minor) }

// Mutates is true when the call may change a node or hand out authority over it.
// Uploads count: they are writes that cannot be judged.
func (m Method) Mutates() bool {
	switch m.Class {
	case policy.ClassApply, policy.ClassMutate, policy.ClassUpload, policy.ClassMint:
		return true
	case policy.ClassRead, policy.ClassConfigRead, policy.ClassSecretRead, policy.ClassSensitiveRead, policy.ClassEgress:
		return false
	default:
		return true
	}
}

// Applies is true for ApplyConfiguration.
func (m Method) Applies() bool { return m.Class == policy.ClassApply }

// Service is the name of the gRPC service, without slashes.
func (m Method) Service() string {
	service, _, _ := strings.Cut(strings.TrimPrefix(m.Name, "/"), "/")
	return service
}

// index is the table by name; it is never written after it is made.
var index = func() map[string]Method {
	out := make(map[string]Method)
	for _, m := range rows() {
		out[m.Name] = m
	}
	return out
}()

// Table returns a copy of the method table by full method name.
func Table() map[string]Method { return maps.Clone(index) }

// Lookup finds the row of a full method name. It is false for every name without a
// row, and such a call is denied: names are compared whole, never by prefix.
func Lookup(fullMethod string) (Method, bool) {
	m, ok := index[fullMethod]
	return m, ok
}
