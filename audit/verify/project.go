package verify

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"bronzeward/audit"
)

// columnKind is how a column is a projection of the record.
type columnKind uint8

const (
	beside   columnKind = iota // no projection: recorded_at, record, leaf
	textual                    // NULL when empty, cut by audit.Projected
	uuidText                   // NULL when left out
	number                     // 0 when left out
	truth                      // false when left out
	words                      // codes: NULL when left out
)

// column is a column of a table of rows.
type column struct {
	name string
	kind columnKind
}

// table is one of the two tables of rows. The first columns are the same in both.
type table struct {
	name    string
	source  byte
	columns []column // in the order in which they are read
	members []spec   // of the record, in their order there
	query   string   // what is selected, up to where
}

// spec is a member of the canonical record (audit.RecordVersion). column is the place of its projection, 0 if it has none.
type spec struct {
	name   string
	column int
	inner  []spec // of an object with members that are projected
}

const (
	columnAt, columnRecord, columnLeaf, columnID = 0, 1, 2, 3

	sourceEntry, sourceOutcome = 'e', 'o'
)

// Places of columns of entries.
var columnCodes, columnMachine, columnCaller = entries.place("codes"), entries.place("machine_name"), entries.place("caller_subject")

func (t *table) place(name string) int {
	return slices.IndexFunc(t.columns, func(c column) bool { return c.name == name })
}

// badRecord is set in a difference when the record is not canonical.
const badRecord = 1 << 31

var entries = newTable("entries", sourceEntry, `v id:id kind verdict method class mode dry_run:flag
	caller{issuer=caller_issuer subject=caller_subject name- kind=caller_kind groups- proof=proof certificate_serial- spki- token_id-}
	client_address machine{id:id=machine_id name=machine_name cluster=cluster node_id-} digest base_digest persistent_digest change_id
	attempt_id:id epoch:id authority_version:number policy_revision opa_version- reasons- codes:words approvals_needed- count:number
	detail- instance at- facts-`)

var outcomes = newTable("outcomes", sourceOutcome, `v id:id entry_id:id attempt_id:id kind state code message- digest persistent_digest
	active_version- persistent_version-
	caller{issuer=caller_issuer subject=caller_subject name- kind- groups- proof- certificate_serial- spki- token_id-}
	duration_us:number bytes_out:number instance`)

var columnKinds = map[string]columnKind{"": textual, "id": uuidText, "number": number, "flag": truth, "words": words}

// newTable reads the members of a record as they are written above: a member's name, ":" and the kind of its column unless
// that is text, "=" and the name of its column unless that is its own, "-" if it has none.
func newTable(name string, source byte, record string) *table {
	t := &table{name: name, source: source, columns: []column{{"recorded_at", beside}, {"record", beside}, {"leaf", beside}}}
	list := &t.members
	for _, word := range strings.Fields(strings.NewReplacer("{", " { ", "}", " } ").Replace(record)) {
		switch word {
		case "{":
			list = &(*list)[len(*list)-1].inner
			continue
		case "}":
			list = &t.members
			continue
		case "v":
			*list = append(*list, spec{name: "v"})
			continue
		}
		if plain, ok := strings.CutSuffix(word, "-"); ok {
			*list = append(*list, spec{name: plain})
			continue
		}
		left, name, renamed := strings.Cut(word, "=")
		member, kind, _ := strings.Cut(left, ":")
		if !renamed {
			name = member
		}
		*list = append(*list, spec{name: member, column: len(t.columns)})
		if member != "caller" && member != "machine" {
			t.columns = append(t.columns, column{name, columnKinds[kind]})
		}
	}
	for i := range t.members {
		if t.members[i].inner != nil {
			t.members[i].column = 0
		}
	}
	names := make([]string, len(t.columns))
	for i, c := range t.columns {
		names[i] = c.name
	}
	t.query = "select " + strings.Join(names, ", ") + " from audit." + name
	return t
}

// tableOf is the table of a leaf's source.
func tableOf(source byte) *table {
	if source == sourceOutcome {
		return outcomes
	}
	return entries
}

// names lists the columns of a difference.
func (t *table) names(differs uint32) []string {
	var out []string
	for i, c := range t.columns {
		if differs&(1<<i) != 0 {
			out = append(out, c.name)
		}
	}
	if differs&badRecord != 0 && differs&(1<<columnRecord) == 0 {
		out = append(out, "record")
	}
	return out
}

// member is a value of the record as it is spelled there; nil when it is left out.
type member []byte

// differences compares a row's columns with its record, and gives a bit for each that is not its projection. values is
// scratch space, one place per column.
func (t *table) differences(fields [][]byte, values []member) uint32 {
	clear(values)
	differs := uint32(0)
	if !scan(fields[columnRecord], t.members, values) {
		return badRecord // what it says is not to be told
	}
	for i, c := range t.columns {
		ok := true
		switch c.kind {
		case textual:
			ok = equalText(fields[i], values[i])
		case uuidText:
			ok = equalUUID(fields[i], values[i])
		case number:
			ok = equalNumber(fields[i], values[i])
		case truth:
			ok = len(fields[i]) == 1 && fields[i][0] <= 1 && (fields[i][0] == 1) == (string(values[i]) == "true")
		case words:
			ok = equalWords(fields[i], values[i])
		}
		if !ok {
			differs |= 1 << i
		}
	}
	return differs
}

func equalText(field []byte, value member) bool {
	if len(value) < 2 || value[0] != '"' {
		return value == nil && field == nil
	}
	text := value[1 : len(value)-1]
	if bytes.IndexByte(text, '\\') < 0 && len(text) <= len(field) {
		return field != nil && bytes.Equal(field, text)
	}
	var s string
	if json.Unmarshal(value, &s) != nil || s == "" {
		return false
	}
	return field != nil && string(field) == audit.Projected(s)
}

func equalUUID(field []byte, value member) bool {
	if value == nil || field == nil {
		return value == nil && field == nil
	}
	if len(field) != 16 || len(value) != 38 {
		return false
	}
	var text [38]byte
	text[0], text[9], text[14], text[19], text[24], text[37] = '"', '-', '-', '-', '-', '"'
	hex.Encode(text[1:], field[:4])
	hex.Encode(text[10:], field[4:6])
	hex.Encode(text[15:], field[6:8])
	hex.Encode(text[20:], field[8:10])
	hex.Encode(text[25:], field[10:])
	return bytes.Equal(text[:], value)
}

func equalNumber(field []byte, value member) bool {
	n, ok := int64Of(field)
	if !ok || value == nil {
		return ok && n == 0
	}
	var text [20]byte
	return bytes.Equal(strconv.AppendInt(text[:0], n, 10), value)
}

// equalWords compares a text[] with a list of strings. The database splits at the unit separator, so that a word which
// holds one is two there.
func equalWords(field []byte, value member) bool {
	if value == nil || field == nil {
		return value == nil && field == nil
	}
	got, ok := textArray(field)
	if !ok {
		return false
	}
	if len(value) > 2 && value[0] == '[' && bytes.IndexByte(value, '\\') < 0 && len(got) > 0 && len(field) < 512 {
		at := 1
		for i, g := range got {
			end := at + len(g) + 2
			if end >= len(value) || value[at] != '"' || !bytes.Equal(value[at+1:end-1], g) || value[end-1] != '"' {
				return false
			}
			if last := i == len(got)-1; last != (value[end] == ']') || last != (end == len(value)-1) {
				return false
			}
			at = end + 1
		}
		return true
	}
	var list []string
	if json.Unmarshal(value, &list) != nil {
		return false
	}
	for i, s := range list {
		list[i] = audit.Projected(s)
	}
	return strings.Join(list, "\x1f") == string(bytes.Join(got, []byte("\x1f")))
}

// textArray reads PostgreSQL's binary text[]: dimensions, a flag, the type, then for each dimension its length and lower
// bound, then the elements. More than one dimension and NULL elements are not ours.
func textArray(field []byte) (list [][]byte, ok bool) {
	if len(field) < 12 {
		return nil, false
	}
	switch binary.BigEndian.Uint32(field) {
	case 0:
		return nil, len(field) == 12
	case 1:
	default:
		return nil, false
	}
	if len(field) < 20 {
		return nil, false
	}
	n := binary.BigEndian.Uint32(field[12:])
	at := 20
	for range n {
		if len(field) < at+4 {
			return nil, false
		}
		size := int64(binary.BigEndian.Uint32(field[at:]))
		at += 4
		if int64(len(field)-at) < size {
			return nil, false
		}
		list = append(list, field[at:at+int(size)])
		at += int(size)
	}
	return list, at == len(field)
}

// rowLeaf is the leaf hash of a row. It is audit.Leaf with space of the caller's.
func rowLeaf(record []byte, at int64, space []byte) (hash, []byte) {
	space = append(space[:0], 0)
	space = append(space, record...)
	space = binary.BigEndian.AppendUint64(space, uint64(at))
	return sha256.Sum256(space), space
}
