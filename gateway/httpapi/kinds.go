package httpapi

import (
	"encoding/json"
	"reflect"
	"time"
)

// number and wholeNumber are the two kinds of numbers: those JSON has, and those a request
// takes.
const (
	number      = "a number"
	wholeNumber = "a whole number in range"
)

// kindOf is what JSON calls the kind of a Go type.
func kindOf(t reflect.Type) string {
	if t == reflect.TypeFor[time.Time]() {
		return "a string"
	}
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "a boolean"
	case reflect.Slice:
		return "an array"
	case reflect.Struct, reflect.Map:
		return "an object"
	default:
		return wholeNumber
	}
}

// kindOfToken is what JSON calls the kind of the value that a token begins.
func kindOfToken(token json.Token) string {
	switch token {
	case json.Delim('['):
		return "an array"
	case json.Delim('{'):
		return "an object"
	}
	switch token.(type) {
	case string:
		return "a string"
	case bool:
		return "a boolean"
	default:
		return number
	}
}
