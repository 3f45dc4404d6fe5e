package verify

import (
	"bytes"
	"encoding/json"
	"testing"

	"pgregory.net/rapid"
)

// jsonTexts are JSON, with the members that are looked for, twice, escaped and within others.
func jsonTexts(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		blank := func() string { return rapid.SampledFrom([]string{"", "", "", " ", "\n\t", "\r"}).Draw(t, "blank") }
		kinds := 9
		if depth == 0 {
			kinds = 4
		}
		switch rapid.IntRange(0, kinds).Draw(t, "kind") {
		case 0:
			return rapid.SampledFrom([]string{"null", "true", "-1.5e3", "0", "[]", "{}"}).Draw(t, "word")
		case 1, 2, 3, 4:
			return rapid.SampledFrom([]string{`"a"`, `"\""`, `"\\"`, `"}\\\""`, `"\u0061"`, `""`, `",\"a\":1"`, `"ä{["`}).Draw(t, "text")
		case 5:
			out := "[" + blank()
			for i := range rapid.IntRange(0, 3).Draw(t, "elements") {
				if i > 0 {
					out += blank() + "," + blank()
				}
				out += jsonTexts(depth-1).Draw(t, "element")
			}
			return out + blank() + "]"
		}
		out := blank() + "{" + blank()
		for i := range rapid.IntRange(0, 4).Draw(t, "members") {
			if i > 0 {
				out += blank() + "," + blank()
			}
			out += rapid.SampledFrom([]string{`"a"`, `"\u0061"`, `"b"`, `"a\""`, `"A"`, `""`}).Draw(t, "name") + blank() + ":" + blank() + jsonTexts(depth-1).Draw(t, "value")
		}
		return out + blank() + "}" + blank()
	})
}

func TestALastMemberIsThatOfTheDecoder(t *testing.T) {
	found := 0
	rapid.Check(t, func(t *rapid.T) {
		value := []byte(jsonTexts(3).Draw(t, "json"))
		if !json.Valid(value) {
			t.Fatalf("the generator made no JSON: %q", value)
		}
		want, got := decodeMember(value, "a"), lastMember(value, "a")
		if !bytes.Equal(bytes.Trim(got, space), want) {
			t.Errorf("%q: got %q, want %q", value, got, want)
		}
		if want != nil {
			found++
		}
	})
	if lastMember(nil, "a") != nil || found < 5 {
		t.Errorf("control: found in %d", found)
	}
}
