package gateway

import (
	"errors"
	"strings"
	"testing"
)

// A panic says where it was and not with what: whoever panicked may have quoted a secret, in
// the call's own goroutine or in a helper's.
func TestAPanicsWordsAreNotKept(t *testing.T) {
	const secret = "s3cret-canary"
	helper := contained(func() error { panic("cannot parse " + secret) })()
	var helped *panicked
	if !errors.As(helper, &helped) || strings.Contains(helper.Error(), secret) || !strings.Contains(helper.Error(), "panic_test.go") {
		t.Errorf("a helper's panic reads %v", helper)
	}
	for name, raise := range map[string]func(){
		"its own": func() { panic(errors.New("cannot parse " + secret)) }, "a helper's": func() { rethrow(helper) },
	} {
		c := &call{}
		func() {
			defer func() { c.notePanic(recover()) }()
			raise()
		}()
		said := ""
		for _, a := range c.attrs {
			said += a.String() + "\n"
		}
		if strings.Contains(said, secret) || !strings.Contains(said, "whose words are not shown") || !strings.Contains(said, "panic_test.go") {
			t.Errorf("%s is noted as %s", name, said)
		}
	}
}
