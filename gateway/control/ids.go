package control

import (
	"fmt"

	"github.com/google/uuid"
	"go.jetify.com/typeid"
)

// The prefixes of ids that people read and type. Source: the TypeID specification, v0.3.
const (
	changePrefix   = "chg"
	approvalPrefix = "apr"
	driftPrefix    = "drf"
)

// ChangeID is the id of a Change: a UUIDv7 in the database, "chg_…" to people.
type ChangeID uuid.UUID

// ApprovalID is the id of an Approval: a UUIDv7 in the database, "apr_…" to people.
type ApprovalID uuid.UUID

// String is the id as people read it; empty for the zero id.
func (id ChangeID) String() string { return typed(changePrefix, uuid.UUID(id)) }

// DriftID is the id of a Drift: a UUIDv7 in the database, "drf_…" to people.
type DriftID uuid.UUID

// String is the id as people read it; empty for the zero id.
func (id DriftID) String() string { return typed(driftPrefix, uuid.UUID(id)) }

// String is the id as people read it; empty for the zero id.
func (id ApprovalID) String() string { return typed(approvalPrefix, uuid.UUID(id)) }

// ParseChangeID reads "chg_…". An id of another kind, or none, is ErrInvalid and says so.
func ParseChangeID(s string) (ChangeID, error) {
	id, err := parseTyped(changePrefix, "a change", s)
	return ChangeID(id), err
}

// ParseApprovalID reads "apr_…". An id of another kind, or none, is ErrInvalid and says so.
func ParseApprovalID(s string) (ApprovalID, error) {
	id, err := parseTyped(approvalPrefix, "an approval", s)
	return ApprovalID(id), err
}

// ParseDriftID reads "drf_…". An id of another kind, or none, is ErrInvalid and says so.
func ParseDriftID(s string) (DriftID, error) {
	id, err := parseTyped(driftPrefix, "a drift", s)
	return DriftID(id), err
}

func typed(prefix string, id uuid.UUID) string {
	if id == uuid.Nil {
		return ""
	}
	t, err := typeid.FromUUIDBytesWithPrefix(prefix, id[:])
	if err != nil {
		return id.String() // sixteen bytes and a constant prefix are always a TypeID
	}
	return t.String()
}

// kinds says what an id with a prefix is the id of.
var kinds = map[string]string{changePrefix: "a change", approvalPrefix: "an approval", driftPrefix: "a drift"}

func parseTyped(prefix, what, s string) (uuid.UUID, error) {
	t, err := typeid.FromString(s)
	if err != nil {
		if _, isUUID := uuid.Parse(s); isUUID == nil {
			return uuid.Nil, fmt.Errorf("%w: %s is the id of a decision, attempt or machine; %s has an id like %s_…", ErrInvalid, clip(s), what, prefix)
		}
		return uuid.Nil, fmt.Errorf("%w: %q is no id of %s, which looks like %s_…", ErrInvalid, clip(s), what, prefix)
	}
	if t.Prefix() != prefix {
		other := kinds[t.Prefix()]
		if other == "" {
			other = "something else"
		}
		return uuid.Nil, fmt.Errorf("%w: %s is the id of %s, not of %s", ErrInvalid, clip(s), other, what)
	}
	return uuid.FromBytes(t.UUIDBytes())
}
