package policy

import (
	"fmt"
	"runtime"
)

// PanicText is a recovered panic's value as it may be logged and kept. The words of Go's own
// runtime name types and numbers. Any other value was made by whoever panicked, often from
// what they could not handle, so that it may quote a secret: of it the type alone is told, and
// the stack says where it was.
func PanicText(value any) string {
	switch v := value.(type) {
	case runtime.Error:
		return v.Error()
	default:
		return fmt.Sprintf("a %T, whose words are not shown", v)
	}
}
