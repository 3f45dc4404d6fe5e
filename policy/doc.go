// Package policy is the judge. It knows OPA and nothing of gRPC, HTTP or PostgreSQL.
//
// An Engine holds one immutable revision of the law behind an atomic pointer and
// answers Facts with a Decision. It never returns an error: whatever goes wrong, an
// undefined answer, a value of the wrong type, a failing rule, a decision over its
// budget, no law at all, is a denial with a code BW-POLICY-0xx. Only an explicit,
// well-formed `allow == true` allows.
//
// A Bundle is the law: Rego v1 modules and the data beside them. Its Revision is the
// SHA-256 of its canonical archive, so that the same files are the same revision
// wherever they are read. The law that ships with Bronzeward is in the folder bundle/;
// see its README.md for how a rule is added and which data there is.
//
// OPA is trusted to evaluate what it is given. It is not given the network, a clock or
// chance: every built-in that could reach those is removed before a bundle compiles.
package policy
