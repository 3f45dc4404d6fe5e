package policy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// Recorded are the facts of a past decision as the book has them: of a Call or of an Act.
// It is immutable and safe for concurrent use.
type Recorded struct {
	// Call and Act are the facts; one of them is null.
	Call *Facts
	Act  *Act
	// Lacking are facts that this version of Facts has and the record does not, by their
	// dotted paths, sorted. They are undefined when it is judged, and no value is guessed.
	Lacking []string
	// input is the record as it is, set when it is not, byte for byte, what this version
	// would write.
	input ast.Value
}

// ErrFacts is in the chain of the errors of ReadRecorded.
var ErrFacts = errors.New("facts cannot be judged")

// ReadRecorded reads the facts of an entry. They are what was judged to the byte: what this
// version would write otherwise is judged as it stands in the record.
func ReadRecorded(raw []byte) (*Recorded, error) {
	var r Recorded
	var into any
	var version *int
	if isAct(raw) {
		r.Act = &Act{}
		into, version = r.Act, &r.Act.Version
	} else {
		r.Call = &Facts{}
		into, version = r.Call, &r.Call.Version
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber() // a number of a configuration may be longer than a float64
	if err := dec.Decode(into); err != nil {
		return nil, fmt.Errorf("%w: they are no facts of a call or an act", ErrFacts)
	}
	if *version != FactsVersion {
		return nil, fmt.Errorf("%w: they are of version %d, and this program judges %d", ErrFacts, *version, FactsVersion)
	}
	if again, err := json.Marshal(into); err == nil && bytes.Equal(again, raw) {
		return &r, nil
	}
	input, err := ast.ValueFromReader(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("%w: they are no JSON", ErrFacts)
	}
	var plain any
	if err := json.Unmarshal(raw, &plain); err != nil {
		return nil, fmt.Errorf("%w: they are no JSON", ErrFacts)
	}
	r.input = input
	lacking(plain, reflect.TypeOf(into).Elem(), "", func(path string) { r.Lacking = append(r.Lacking, path) })
	slices.Sort(r.Lacking)
	r.Lacking = slices.Compact(r.Lacking)
	return &r, nil
}

// isAct tells facts of an Act from those of a Call by the member that only they have.
func isAct(raw []byte) bool {
	dec := json.NewDecoder(bytes.NewReader(raw))
	for depth := 0; ; {
		tok, err := dec.Token()
		if err != nil {
			return false
		}
		switch d, ok := tok.(json.Delim); {
		case ok && (d == '{' || d == '['):
			depth++
		case ok:
			depth--
		case depth == 1 && tok == "act":
			return true
		case depth == 1 && tok == "phase":
			return false
		}
	}
}

// lacking names the members of a type that a JSON value does not have. Where the value is null
// or of another shape nothing is asked of it.
func lacking(v any, of reflect.Type, path string, name func(string)) {
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	switch x := v.(type) {
	case []any:
		if of.Kind() == reflect.Slice {
			for _, e := range x {
				lacking(e, of.Elem(), path+"[]", name)
			}
		}
	case map[string]any:
		if of.Kind() != reflect.Struct {
			return
		}
		for i := range of.NumField() {
			key, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
			at := strings.TrimPrefix(path+"."+key, ".")
			if e, ok := x[key]; ok {
				lacking(e, of.Field(i).Type, at, name)
			} else {
				name(at)
			}
		}
	}
}

// DecideRecorded judges a past decision again, as Decide and DecideAct do the present.
func (e *Engine) DecideRecorded(ctx context.Context, r *Recorded) Decision {
	l := e.live.Load()
	switch {
	case l == nil:
		return e.fail(ctx, "", CodeNoPolicy, nil)
	case r.Act != nil && r.input != nil:
		return e.judge(ctx, l, l.api, r.input, readAct)
	case r.Act != nil:
		return e.DecideAct(ctx, r.Act)
	case r.input != nil:
		return e.judge(ctx, l, l.admission, r.input, readAdmission)
	}
	return e.Decide(ctx, r.Call)
}

// EngineSaid is true for a reason that the engine itself gave because the law could not be
// heard, and false for what a rule said or a gateway added.
func EngineSaid(r Reason) bool {
	own, ok := ownMessages[r.Code]
	return ok && r.Message == own.text
}

// EngineGaveUp is true for a reason that says of the moment, and not of the facts, why the law
// was not heard: another time it may be.
func EngineGaveUp(r Reason) bool {
	return EngineSaid(r) && slices.Contains([]string{CodeNoPolicy, CodeBudget, CodeCancelled}, r.Code)
}

// RefusesAnyAct is true for a code of the shipped law that refuses an act whatever it is about:
// the caller is revoked, the act unknown, the role missing, the caller automation, the proof
// ended, no lifetime granted, or no token shown. A gateway writes such a refusal down alone,
// before it looks up what the act is about.
func RefusesAnyAct(code string) bool {
	number, ok := strings.CutPrefix(code, "BW-ACT-")
	return ok && slices.Contains([]string{"001", "002", "003", "004", "005", "008", "009"}, number)
}
