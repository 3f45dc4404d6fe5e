package facts

import (
	"math"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// maxDepth is how deep messages may nest; Talos's own requests nest four deep.
const maxDepth = 32

// checkWire walks a message as it is on the wire. A decoder would hide what matters
// here: the last of two `data` fields wins, unknown fields are kept or dropped in
// silence, and an older node obeys fields this version no longer knows.
//
// Two members of one oneof count as one field given twice. Non-minimal varints are
// fine: they mean one thing. Strict refuses unknown fields; without it only their
// framing is checked.
func checkWire(descriptor protoreflect.MessageDescriptor, message []byte, strict bool) error {
	return walkWire(descriptor, message, strict, 0)
}

func walkWire(descriptor protoreflect.MessageDescriptor, message []byte, strict bool, depth int) error {
	if depth > maxDepth {
		return refuse(ReasonMalformed, "the request nests deeper than %d messages", maxDepth)
	}
	malformed := func() error {
		return refuse(ReasonMalformed, "the request is not a well-formed %s", descriptor.FullName())
	}

	seen := make(map[protoreflect.FullName]bool)
	for len(message) > 0 {
		number, wire, n := protowire.ConsumeTag(message)
		if n < 0 {
			return malformed()
		}
		size := protowire.ConsumeFieldValue(number, wire, message[n:])
		if size < 0 {
			return malformed()
		}
		value := message[n : n+size]
		message = message[n+size:]

		field := descriptor.Fields().ByNumber(number)
		if field == nil {
			if strict {
				return refuse(ReasonUnknownField, "the request holds field %d, which %s does not have in talos %s",
					number, descriptor.FullName(), SupportedMinor).hint("use the talosctl of the node's own version")
			}
			continue
		}
		if !field.IsList() && !field.IsMap() {
			name := field.FullName()
			if oneof := field.ContainingOneof(); oneof != nil && !oneof.IsSynthetic() {
				name = oneof.FullName()
			}
			if seen[name] {
				return refuse(ReasonRepeatedField, "the request gives %s twice", name)
			}
			seen[name] = true
		}
		if !wireFits(field, wire) || !valueFits(field, wire, value) {
			return malformed()
		}
		if field.Message() != nil {
			inner, _ := protowire.ConsumeBytes(value)
			if err := walkWire(field.Message(), inner, strict, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// wireFits says whether a field may be written in the wire type it came in.
func wireFits(field protoreflect.FieldDescriptor, wire protowire.Type) bool {
	want := wireOf(field.Kind())
	if field.IsList() && want != protowire.BytesType && wire == protowire.BytesType {
		return true // packed
	}
	return wire == want
}

func wireOf(kind protoreflect.Kind) protowire.Type {
	switch kind {
	case protoreflect.Fixed32Kind, protoreflect.Sfixed32Kind, protoreflect.FloatKind:
		return protowire.Fixed32Type
	case protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind, protoreflect.DoubleKind:
		return protowire.Fixed64Type
	case protoreflect.StringKind, protoreflect.BytesKind, protoreflect.MessageKind:
		return protowire.BytesType
	case protoreflect.GroupKind:
		return protowire.StartGroupType
	default:
		return protowire.VarintType
	}
}

// valueFits refuses what two decoders may read differently: text that is not UTF-8,
// and varints wider than their field, which some decoders cut and some do not.
func valueFits(field protoreflect.FieldDescriptor, wire protowire.Type, value []byte) bool {
	switch field.Kind() {
	case protoreflect.StringKind:
		text, _ := protowire.ConsumeBytes(value)
		return utf8.Valid(text)
	case protoreflect.BoolKind, protoreflect.EnumKind, protoreflect.Int32Kind, protoreflect.Uint32Kind, protoreflect.Sint32Kind:
		if wire != protowire.VarintType {
			return true
		}
		number, _ := protowire.ConsumeVarint(value)
		return varintFits(field.Kind(), number)
	default:
		return true
	}
}

func varintFits(kind protoreflect.Kind, number uint64) bool {
	switch kind {
	case protoreflect.BoolKind:
		return number <= 1
	case protoreflect.Uint32Kind, protoreflect.Sint32Kind:
		return number <= math.MaxUint32
	default: // int32 and enum: negative values are sign-extended to 64 bits
		signed := int64(number)
		return signed >= math.MinInt32 && signed <= math.MaxInt32
	}
}
