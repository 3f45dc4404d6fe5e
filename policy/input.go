package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
)

// The input is built by hand, because a decision is made on every call and the way
// through encoding/json costs more than the judging. A test holds it equal to that way.

type pair = [2]*ast.Term

func obj(pairs ...pair) *ast.Term { return ast.NewTerm(ast.NewObject(pairs...)) }

func kv(key string, value *ast.Term) pair { return pair{keyTerms[key], value} }

// keyTerms are the names of all facts as terms, made once. The map is never written.
var keyTerms = func() map[string]*ast.Term {
	out := map[string]*ast.Term{}
	for _, k := range []string{
		"act", "after", "api_version", "approvals", "approver", "base", "before", "call", "caller",
		"change", "changes", "changes_known", "class", "cluster", "collections", "config", "digest", "document",
		"documents", "drift", "dry_run", "entries", "epoch_current", "evidence", "field", "groups", "groups_now",
		"holder", "holds", "id", "identical", "identity_matches", "issuer", "kind", "labels", "line",
		"machine", "message", "method", "minor", "mode", "mode_given", "name", "namespace", "now", "path",
		"persistent", "phase", "pinned", "problems", "proof", "proof_ends", "reason", "reboot", "requester",
		"resource", "revoked", "role", "scope", "service", "since", "size", "spender", "stage", "staged",
		"state", "stream", "subject", "targets", "try_timeout_seconds", "type", "version",
	} {
		out[k] = ast.StringTerm(k)
	}
	return out
}()

func str(s string) *ast.Term { return ast.InternedTerm(s) }

func boole(b bool) *ast.Term { return ast.InternedTerm(b) }

func num(n int64) *ast.Term {
	if n >= 0 && n < 512 {
		return ast.InternedTerm(int(n))
	}
	return ast.NewTerm(ast.Number(json.Number(fmt.Sprint(n))))
}

func stamp(t time.Time) *ast.Term { return str(t.UTC().Format(time.RFC3339Nano)) }

func null() *ast.Term { return ast.InternedNullTerm }

// list is null for a nil slice, as encoding/json has it.
func list[T any](in []T, each func(*T) *ast.Term) *ast.Term {
	if in == nil {
		return null()
	}
	out := make([]*ast.Term, len(in))
	for i := range in {
		out[i] = each(&in[i])
	}
	return ast.ArrayTerm(out...)
}

func optional[T any](in *T, each func(*T) *ast.Term) *ast.Term {
	if in == nil {
		return null()
	}
	return each(in)
}

func texts(in []string) *ast.Term { return list(in, func(s *string) *ast.Term { return str(*s) }) }

func factsValue(f *Facts) (ast.Value, error) {
	config, err := configTerm(f.Config)
	if err != nil {
		return nil, err
	}
	return ast.NewObject(
		kv("version", num(int64(f.Version))),
		kv("phase", str(f.Phase)),
		kv("call", callTerm(&f.Call)),
		kv("caller", callerTerm(&f.Caller)),
		kv("machine", optional(f.Machine, machineTerm)),
		kv("evidence", optional(f.Evidence, evidenceTerm)),
		kv("config", config),
		kv("change", optional(f.Change, changeTerm)),
		kv("holds", list(f.Holds, holdTerm)),
		kv("now", stamp(f.Now)),
	), nil
}

func actValue(a *Act) ast.Value {
	return ast.NewObject(
		kv("version", num(int64(a.Version))),
		kv("act", str(a.Act)),
		kv("caller", callerTerm(&a.Caller)),
		kv("subject", str(a.Subject)),
		kv("change", optional(a.Change, changeTerm)),
		kv("now", stamp(a.Now)),
	)
}

func callTerm(c *Call) *ast.Term {
	return obj(
		kv("method", str(c.Method)),
		kv("class", str(string(c.Class))),
		kv("stream", boole(c.Stream)),
		kv("mode", str(c.Mode)),
		kv("mode_given", boole(c.ModeGiven)),
		kv("dry_run", boole(c.DryRun)),
		kv("try_timeout_seconds", num(c.TryTimeoutSeconds)),
		kv("size", num(int64(c.Size))),
		kv("resource", optional(c.Resource, func(r *Resource) *ast.Term {
			return obj(kv("namespace", str(r.Namespace)), kv("type", str(r.Type)), kv("id", str(r.ID)))
		})),
		kv("path", str(c.Path)),
		kv("service", str(c.Service)),
		kv("targets", num(int64(c.Targets))),
		kv("cluster", str(c.Cluster)),
	)
}

func callerTerm(c *Caller) *ast.Term {
	return obj(
		kv("issuer", str(c.Issuer)),
		kv("subject", str(c.Subject)),
		kv("kind", str(c.Kind)),
		kv("groups", texts(c.Groups)),
		kv("proof", str(c.Proof)),
		kv("proof_ends", stamp(c.ProofEnds)),
		kv("revoked", boole(c.Revoked)),
	)
}

func machineTerm(m *Machine) *ast.Term {
	labels := null()
	if m.Labels != nil {
		pairs := make([]pair, 0, len(m.Labels))
		for _, k := range slices.Sorted(maps.Keys(m.Labels)) {
			pairs = append(pairs, pair{str(k), str(m.Labels[k])})
		}
		labels = obj(pairs...)
	}
	return obj(
		kv("name", str(m.Name)),
		kv("cluster", str(m.Cluster)),
		kv("role", str(m.Role)),
		kv("labels", labels),
		kv("pinned", boole(m.Pinned)),
	)
}

func evidenceTerm(e *Evidence) *ast.Term {
	return obj(
		kv("version", str(e.Version)),
		kv("minor", str(e.Minor)),
		kv("stage", str(e.Stage)),
		kv("type", str(e.Type)),
		kv("identity_matches", boole(e.IdentityMatches)),
		kv("staged", boole(e.Staged)),
	)
}

func configTerm(c *Config) (*ast.Term, error) {
	if c == nil {
		return null(), nil
	}
	var failed error
	changes := list(c.Changes, func(ch *ConfigChange) *ast.Term {
		before, err := scalar(ch.Before)
		if err != nil {
			failed, before = err, null()
		}
		after, err := scalar(ch.After)
		if err != nil {
			failed, after = err, null()
		}
		return obj(
			kv("document", str(ch.Document)),
			kv("path", str(ch.Path)),
			kv("field", str(ch.Field)),
			kv("before", before),
			kv("after", after),
			kv("reboot", boole(ch.Reboot)),
		)
	})
	if failed != nil {
		return nil, failed
	}
	return obj(
		kv("digest", str(c.Digest)),
		kv("base", str(c.Base)),
		kv("persistent", str(c.Persistent)),
		kv("problems", list(c.Problems, func(p *Problem) *ast.Term {
			return obj(kv("kind", str(p.Kind)), kv("line", num(int64(p.Line))), kv("message", str(p.Message)))
		})),
		kv("documents", list(c.Documents, func(d *Document) *ast.Term {
			return obj(kv("api_version", str(d.APIVersion)), kv("kind", str(d.Kind)), kv("name", str(d.Name)))
		})),
		kv("changes", changes),
		kv("changes_known", boole(c.ChangesKnown)),
		kv("collections", list(c.Collections, func(n *Collection) *ast.Term {
			return obj(kv("document", str(n.Document)), kv("field", str(n.Field)), kv("entries", num(int64(n.Entries))))
		})),
		kv("identical", boole(c.Identical)),
	), nil
}

func changeTerm(c *Change) *ast.Term {
	return obj(
		kv("id", str(c.ID)),
		kv("state", str(c.State)),
		kv("kind", str(c.Kind)),
		kv("drift", str(c.Drift)),
		kv("requester", personTerm(&c.Requester)),
		kv("spender", personTerm(&c.Spender)),
		kv("approvals", list(c.Approvals, func(a *Approval) *ast.Term {
			return obj(
				kv("approver", personTerm(&a.Approver)),
				kv("kind", str(a.Kind)),
				kv("groups", texts(a.Groups)),
				kv("groups_now", texts(a.GroupsNow)),
				kv("revoked", boole(a.Revoked)),
				kv("epoch_current", boole(a.EpochCurrent)),
			)
		})),
		kv("epoch_current", boole(c.EpochCurrent)),
	)
}

func personTerm(p *Person) *ast.Term {
	return obj(kv("issuer", str(p.Issuer)), kv("subject", str(p.Subject)))
}

func holdTerm(h *Hold) *ast.Term {
	return obj(
		kv("kind", str(h.Kind)),
		kv("id", str(h.ID)),
		kv("holder", personTerm(&h.Holder)),
		kv("since", stamp(h.Since)),
		kv("scope", str(h.Scope)),
		kv("reason", ast.StringTerm(h.Reason)), // a person's words: not worth interning
	)
}

// scalar is a value of a ConfigChange. It need not be a scalar: whatever encoding/json
// can write is taken.
func scalar(v any) (*ast.Term, error) {
	switch x := v.(type) {
	case nil:
		return null(), nil
	case string:
		return str(x), nil
	case bool:
		return boole(x), nil
	case json.Number:
		return ast.NewTerm(ast.Number(x)), nil
	case int:
		return num(int64(x)), nil
	case int64:
		return num(x), nil
	case uint64:
		if x <= math.MaxInt64 {
			return num(int64(x)), nil
		}
	case float64:
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return nil, fmt.Errorf("a change holds a number that is not finite")
		}
	}
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encoding a change: %w", err)
	}
	val, err := ast.ValueFromReader(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("encoding a change: %w", err)
	}
	return ast.NewTerm(val), nil
}
