// Package facts answers what is asked: it reads one Call's method, message, targets
// and configuration, as strangers' input, into the Facts a policy may see.
//
//	method name ──Lookup──▶ Method ──ParseCall──▶ Parsed ──▶ policy.Call
//	metadata ──ParseTargets──▶ Targets ──Resolve──▶ distinct machines
//	texts ──Reader.Read──▶ policy.Config        (digests, problems, changes)
//	node's words ──Redactor──▶ words without secrets
//
// Nothing here dials, stores or forwards, and nothing is ever re-encoded: the bytes
// that were judged are the caller's buffer, and the gateway forwards that buffer.
// Every doubt is a refusal: an unknown method is not ok, an unknown resource type is
// a secret-read, an unreadable configuration has a Problem, and a diff that cannot be
// shown safely is not shown.
//
// # Trust
//
// Talos's machinery is trusted to parse as the node parses, not to be quick, quiet or
// free of panics: its work is bounded beforehand, its panics are contained, and its
// error texts, which quote the configuration, never leave this package as they are.
//
// The YAML library linked here is a later release than the one in Talos 1.13.6. It takes
// some tabs the node's refuses, so a configuration may pass here and be rejected there;
// among 20 000 mutated configurations none was taken by both and read differently, and
// none was taken by the node's alone.
package facts
