package audit

import (
	"time"

	"github.com/google/uuid"

	"bronzeward/policy"
)

// RecordVersion is the version of the canonical record, its member "v". It moves when a member changes its meaning or
// its place; a reader of version 1 reads every record whose "v" is 1.
//
// # Canonical records, version 1
//
// A record is one JSON object in UTF-8, without white space between tokens, its members in the order below. A member
// whose value is zero (empty string or list, 0, false, the zero UUID, the zero time) is left out, those marked * are
// always there. Strings escape only ", \ and the characters below U+0020 (\b \t \n \f \r, else \u00xx). A NUL and a
// byte that was not UTF-8 stand as the visible \xNN; a string over 16 KiB is cut and ends in "…[cut]". UUIDs are in
// lower-case with hyphens; numbers are decimal integers.
//
// An entry:
//
//	v*                 1
//	id*                the decision, UUIDv7
//	kind*              rpc, http, policy, system
//	verdict*           allow, deny, refuse
//	method             full gRPC method, or the act
//	class              class of the method or of the refusal
//	mode               apply mode as talosctl spells it
//	dry_run            true
//	caller             object, left out when nobody was proven:
//	                   issuer, subject, name, kind, groups, proof, certificate_serial, spki, token_id
//	client_address     where the connection came from
//	machine            object, left out when none is named: id, name, cluster, node_id
//	digest             configuration asked for
//	base_digest        configuration active on the machine
//	persistent_digest  configuration on its disk
//	change_id          the Change
//	attempt_id         the Attempt
//	epoch              the epoch
//	authority_version* what it was judged at
//	policy_revision    SHA-256 of the bundle
//	opa_version        engine that judged
//	reasons            list of objects: code, message, rule, severity, hint
//	codes              list of strings
//	approvals_needed*  what the law required
//	count*             refusals the entry stands for, else 1
//	detail             one sentence for kinds without facts
//	instance           the gateway
//	at                 the gateway's idea of the database clock, RFC 3339 in UTC with six decimals
//	facts              the policy's input as it was, compacted; \u0000 and unpaired surrogates replaced.
//	                   A string if the input was no JSON.
//
// An outcome:
//
//	v*, id*, entry_id*, attempt_id, kind* (answered, unanswered, read-back, state, accounted, late-landing), state, code,
//	message, digest, persistent_digest, active_version, persistent_version, caller (as above), duration_us, bytes_out,
//	instance
const RecordVersion = 1

// timeFormat is RFC 3339 with the database's own resolution.
const timeFormat = "2006-01-02T15:04:05.000000Z07:00"

// Record returns the canonical bytes of the entry, as documented at RecordVersion. It never fails: what PostgreSQL or
// JSON would refuse is escaped.
func (e Entry) Record() []byte { return e.clean().record() }

func (e Entry) record() []byte {
	o := newObject(make([]byte, 0, 1024+len(e.Facts)))
	o.always("v", RecordVersion)
	o.key("id")
	o.b = appendText(o.b, e.ID.String())
	o.key("kind")
	o.b = appendText(o.b, string(e.Kind))
	o.key("verdict")
	o.b = appendText(o.b, string(e.Verdict))
	o.text("method", e.Method)
	o.text("class", e.Class)
	o.text("mode", e.Mode)
	o.flag("dry_run", e.DryRun)
	e.Caller.append(&o)
	o.text("client_address", e.ClientAddress)
	if e.MachineID != uuid.Nil || e.MachineName != "" || e.Cluster != "" || e.NodeID != "" {
		o.key("machine")
		m := newObject(o.b)
		m.text("id", id(e.MachineID))
		m.text("name", e.MachineName)
		m.text("cluster", e.Cluster)
		m.text("node_id", e.NodeID)
		o.b = m.end()
	}
	o.text("digest", e.Digest)
	o.text("base_digest", e.Base)
	o.text("persistent_digest", e.Persistent)
	o.text("change_id", e.ChangeID)
	o.text("attempt_id", id(e.AttemptID))
	o.text("epoch", id(e.Epoch))
	o.always("authority_version", e.AuthorityVersion)
	o.text("policy_revision", e.PolicyRevision)
	o.text("opa_version", e.OPAVersion)
	if len(e.Reasons) > 0 {
		o.key("reasons")
		o.b = append(o.b, '[')
		for i, r := range e.Reasons {
			if i > 0 {
				o.b = append(o.b, ',')
			}
			m := newObject(o.b)
			m.text("code", r.Code)
			m.text("message", r.Message)
			m.text("rule", r.Rule)
			m.text("severity", string(r.Severity))
			m.text("hint", r.Hint)
			o.b = m.end()
		}
		o.b = append(o.b, ']')
	}
	o.list("codes", e.Codes)
	o.always("approvals_needed", int64(e.ApprovalsNeeded))
	o.always("count", e.Count)
	o.text("detail", e.Detail)
	o.text("instance", e.Instance)
	if !e.At.IsZero() {
		o.key("at")
		o.b = append(o.b, '"')
		o.b = e.At.AppendFormat(o.b, timeFormat)
		o.b = append(o.b, '"')
	}
	if len(e.Facts) > 0 {
		o.key("facts")
		o.b = append(o.b, e.Facts...)
	}
	return o.end()
}

// Record returns the canonical bytes of the outcome, as documented at RecordVersion. It never fails.
func (o Outcome) Record() []byte { return o.clean().record() }

func (o Outcome) record() []byte {
	w := newObject(make([]byte, 0, 512))
	w.always("v", RecordVersion)
	w.key("id")
	w.b = appendText(w.b, o.ID.String())
	w.key("entry_id")
	w.b = appendText(w.b, o.EntryID.String())
	w.text("attempt_id", id(o.AttemptID))
	w.key("kind")
	w.b = appendText(w.b, string(o.Kind))
	w.text("state", o.State)
	w.text("code", o.Code)
	w.text("message", o.Message)
	w.text("digest", o.Digest)
	w.text("persistent_digest", o.Persistent)
	w.text("active_version", o.ActiveVersion)
	w.text("persistent_version", o.PersistentVersion)
	o.Caller.append(&w)
	w.number("duration_us", o.Duration.Microseconds())
	w.number("bytes_out", o.BytesOut)
	w.text("instance", o.Instance)
	return w.end()
}

func (c Caller) append(o *object) {
	if c.proven() {
		o.key("caller")
		m := newObject(o.b)
		m.text("issuer", c.Issuer)
		m.text("subject", c.Subject)
		m.text("name", c.Name)
		m.text("kind", c.Kind)
		m.list("groups", c.Groups)
		m.text("proof", c.Proof)
		m.text("certificate_serial", c.CertificateSerial)
		m.text("spki", c.SPKI)
		m.text("token_id", c.TokenID)
		o.b = m.end()
	}
}

// proven is false for the zero Caller.
func (c Caller) proven() bool {
	return c.Issuer != "" || c.Subject != "" || c.Name != "" || c.Kind != "" || len(c.Groups) > 0 ||
		c.Proof != "" || c.CertificateSerial != "" || c.SPKI != "" || c.TokenID != ""
}

// clean returns the entry as it is written: every string escaped, the facts compact, the count at least 1, the time in
// UTC. Cleaning twice is cleaning once. The entry given is not changed.
func (e Entry) clean() Entry {
	for _, s := range []*string{
		(*string)(&e.Kind), (*string)(&e.Verdict), &e.Method, &e.Class, &e.Mode, &e.ClientAddress, &e.MachineName,
		&e.Cluster, &e.NodeID, &e.Digest, &e.Base, &e.Persistent, &e.ChangeID, &e.PolicyRevision, &e.OPAVersion,
		&e.Detail, &e.Instance,
	} {
		*s = escape(*s)
	}
	e.Caller = e.Caller.clean()
	e.Codes = escapeAll(e.Codes)
	if len(e.Reasons) > 0 {
		reasons := make([]policy.Reason, len(e.Reasons))
		for i, r := range e.Reasons {
			reasons[i] = policy.Reason{
				Code: escape(r.Code), Message: escape(r.Message), Rule: escape(r.Rule),
				Severity: policy.Severity(escape(string(r.Severity))), Hint: escape(r.Hint),
			}
		}
		e.Reasons = reasons
	} else {
		e.Reasons = nil
	}
	e.Facts = cleanJSON(e.Facts)
	e.Count = max(e.Count, 1)
	e.At = cleanTime(e.At)
	return e
}

func (o Outcome) clean() Outcome {
	for _, s := range []*string{
		(*string)(&o.Kind), &o.State, &o.Code, &o.Message, &o.Digest, &o.Persistent, &o.ActiveVersion,
		&o.PersistentVersion, &o.Instance,
	} {
		*s = escape(*s)
	}
	o.Caller = o.Caller.clean()
	o.Duration = o.Duration.Truncate(time.Microsecond)
	return o
}

func (c Caller) clean() Caller {
	for _, s := range []*string{&c.Issuer, &c.Subject, &c.Name, &c.Kind, &c.Proof, &c.CertificateSerial, &c.SPKI, &c.TokenID} {
		*s = escape(*s)
	}
	c.Groups = escapeAll(c.Groups)
	return c
}

// cleanTime is t in UTC at the database's resolution; a year that RFC 3339 cannot spell becomes the zero time.
func cleanTime(t time.Time) time.Time {
	t = t.UTC().Truncate(time.Microsecond)
	if y := t.Year(); y < 1 || y > 9999 {
		return time.Time{}
	}
	return t
}

// id is the text of u, empty for the zero UUID.
func id(u uuid.UUID) string {
	if u == uuid.Nil {
		return ""
	}
	return u.String()
}
