package policy

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestPanicTextQuotesNobody(t *testing.T) {
	const secret = "s3cret-canary"
	recovered := func(f func()) (v any) {
		defer func() { v = recover() }()
		f()
		return nil
	}
	var m map[string]int
	var wrong any = secret
	for _, row := range []struct {
		name string
		do   func()
		want string
	}{
		{"a text", func() { panic("cannot parse " + secret) }, "a string, whose words are not shown"},
		{"an error", func() { panic(fmt.Errorf("cannot parse %q", secret)) }, "whose words are not shown"},
		{"a plain error", func() { panic(errors.New(secret)) }, "a *errors.errorString, whose"},
		{"a value", func() { panic(struct{ S string }{secret}) }, "a struct { S string }, whose"},
		{"a nil map", func() { m[secret] = 1 }, "assignment to entry in nil map"},
		{"another type", func() { _ = wrong.(int) }, "interface {} is string, not int"},
		{"an index", func() { _ = []string{secret}[len(secret)] }, "index out of range [13] with length 1"},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := PanicText(recovered(row.do))
			if !strings.Contains(got, row.want) || strings.Contains(got, secret) {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
}
