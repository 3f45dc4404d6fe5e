package verify

import (
	"bytes"
	"encoding/json"
	"strings"
)

// changedPaths are the path and the field of each of facts.config.changes; nothing if a record holds none or is no JSON.
// Of a member that is there twice, jsonb has the last.
func changedPaths(record []byte) []string {
	if !json.Valid(record) {
		return nil
	}
	value := record
	for _, name := range []string{"facts", "config", "changes"} {
		value = lastMember(value, name)
	}
	var changes []json.RawMessage
	if json.Unmarshal(value, &changes) != nil {
		return nil
	}
	var out []string
	for _, c := range changes {
		var change map[string]json.RawMessage
		if json.Unmarshal(c, &change) != nil {
			continue
		}
		for _, name := range []string{"path", "field"} {
			var text string
			if json.Unmarshal(change[name], &text) != nil || text == "" {
				continue
			}
			if strings.IndexByte(text, 0) >= 0 { // jsonb refuses the record
				return nil
			}
			out = append(out, text)
		}
	}
	return out
}

// lastMember is the value of the last member of that name of an object, nil if there is none or value is no object. value is
// JSON or nil. An object is walked over once; decoding it would take ten times as long.
func lastMember(value []byte, name string) []byte {
	b := bytes.TrimLeft(value, space)
	if len(b) == 0 || b[0] != '{' {
		return nil
	}
	var found []byte
	for b = bytes.TrimLeft(b[1:], space); len(b) > 0 && b[0] == '"'; b = bytes.TrimLeft(b, space+",") {
		end := skipText(b, 0)
		key := b[:end]
		b = bytes.TrimLeft(b[end:], space+":")
		end = skip(b, 0)
		if end == 0 { // white space, which canonical records have none of
			return decodeMember(value, name)
		}
		if isText(key, name) {
			found = b[:end]
		}
		b = b[end:]
	}
	return found
}

// decodeMember is lastMember by the decoder.
func decodeMember(value []byte, name string) []byte {
	var object map[string]json.RawMessage
	if json.Unmarshal(value, &object) != nil {
		return nil
	}
	return object[name]
}

// space is JSON's white space.
const space = " \t\r\n"

// isText is whether a JSON string is a text.
func isText(key []byte, text string) bool {
	if bytes.IndexByte(key, '\\') < 0 {
		return string(key[1:len(key)-1]) == text
	}
	var s string
	return json.Unmarshal(key, &s) == nil && s == text
}
