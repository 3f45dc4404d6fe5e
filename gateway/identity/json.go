package identity

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"unicode/utf8"
)

// maxDepth bounds nesting in a token's JSON.
const maxDepth = 32

// strictObject reads a JSON object: valid UTF-8, no name twice in any object at any depth, nothing behind it. Names are
// matched exactly by the caller, which encoding/json into a struct would not do. Its errors quote nothing.
func strictObject(raw []byte) (map[string]json.RawMessage, error) {
	if !utf8.Valid(raw) {
		return nil, errors.New("is not valid UTF-8")
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	if err := walkValue(decoder, 0); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, errors.New("has something behind its JSON")
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(raw, &object); err != nil || object == nil {
		return nil, errors.New("is not a JSON object")
	}
	return object, nil
}

// walkValue reads one value and looks for names that occur twice.
func walkValue(decoder *json.Decoder, depth int) error {
	token, err := decoder.Token()
	if err != nil {
		return errors.New("is not JSON")
	}
	delim, ok := token.(json.Delim)
	if !ok {
		return nil
	}
	if depth == maxDepth {
		return errors.New("is nested too deeply")
	}
	names := make(map[string]bool)
	for decoder.More() {
		if delim == '{' {
			token, err := decoder.Token()
			name, ok := token.(string)
			if err != nil || !ok {
				return errors.New("is not JSON")
			}
			if names[name] {
				return errors.New("has a name twice")
			}
			names[name] = true
		}
		if err := walkValue(decoder, depth+1); err != nil {
			return err
		}
	}
	if _, err := decoder.Token(); err != nil {
		return errors.New("is not JSON")
	}
	return nil
}
