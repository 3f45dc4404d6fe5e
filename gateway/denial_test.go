package gateway

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/siderolabs/talos/pkg/machinery/api/common"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"bronzeward/audit"
	"bronzeward/policy"
)

var someID = uuid.MustParse("0192f000-0000-7000-8000-000000000001")

func deny(code, message, hint string) policy.Reason {
	return policy.Reason{Code: code, Message: message, Hint: hint, Severity: policy.SeverityDeny}
}

// What a refused person reads: one line that says what and why, then at most three more.
func TestDenialTexts(t *testing.T) {
	t.Parallel()
	many := []policy.Reason{
		deny("BW-MODE-002", "mode reboot is not allowed", "talosctl apply-config --mode=no-reboot …"),
		deny("BW-CONFIG-002", "machine.install needs a reboot", ""), deny("BW-CONFIG-003", "the token is changed", ""),
		deny("BW-CONFIG-004", "a fourth", ""), deny("BW-CONFIG-005", "a fifth", ""),
	}
	for _, row := range []struct {
		name string
		d    policy.Decision
		want string
	}{
		{"one reason", policy.Decision{Reasons: many[1:2]}, "DENIED BW-CONFIG-002: machine.install needs a reboot (decision " + someID.String() + ")"},
		{"a reason with a hint", policy.Decision{Reasons: many[:1]}, `DENIED BW-MODE-002: mode reboot is not allowed (decision 0192f000-0000-7000-8000-000000000001)
try: talosctl apply-config --mode=no-reboot …`},
		{"three reasons and a hint", policy.Decision{Reasons: many[:3]}, `DENIED BW-MODE-002: mode reboot is not allowed (decision 0192f000-0000-7000-8000-000000000001)
also BW-CONFIG-002: machine.install needs a reboot
also BW-CONFIG-003: the token is changed
try: talosctl apply-config --mode=no-reboot …`},
		{"more than fit", policy.Decision{Reasons: many}, `DENIED BW-MODE-002: mode reboot is not allowed (decision 0192f000-0000-7000-8000-000000000001)
also BW-CONFIG-002: machine.install needs a reboot
also BW-CONFIG-003: the token is changed (and 2 more: bronzeward decisions show 0192f000-0000-7000-8000-000000000001)
try: talosctl apply-config --mode=no-reboot …`},
		{"none at all", policy.Decision{}, "DENIED BW-POLICY-001: no rule allows this call (decision 0192f000-0000-7000-8000-000000000001)"},
		{"warnings and shadows are no denials", policy.Decision{Reasons: []policy.Reason{
			{Code: "BW-W", Message: "w", Severity: policy.SeverityWarn},
			{Code: "BW-S", Message: "s", Severity: policy.SeverityShadow},
			deny("BW-X-001", "no", ""),
		}}, "DENIED BW-X-001: no (decision 0192f000-0000-7000-8000-000000000001)"},
		{"control characters", policy.Decision{Reasons: []policy.Reason{deny("BW-X-001", "a\nb\tc\x1b[31m\u0085d\xff", "e\r\nf")}}, `DENIED BW-X-001: a b c [31m d` + "\uFFFD" + ` (decision 0192f000-0000-7000-8000-000000000001)
try: e f`},
	} {
		t.Run(row.name, func(t *testing.T) {
			st := status.Convert(denial(audit.Receipt{ID: someID}, row.d))
			if st.Code() != codes.PermissionDenied {
				t.Errorf("code is %v", st.Code())
			}
			if diff := cmp.Diff(row.want, st.Message()); diff != "" {
				t.Error(diff)
			}
			readsWell(t, st.Message())
		})
	}
}

// readsWell holds the form of every text of ours.
func readsWell(t *testing.T, text string) {
	t.Helper()
	lines := strings.Split(text, "\n")
	if len(lines) > 1+maxHints {
		t.Errorf("%d lines: %q", len(lines), text)
	}
	for _, l := range lines {
		if !utf8.ValidString(l) || strings.ContainsFunc(l, unicode.IsControl) || strings.TrimSpace(l) != l || l == "" {
			t.Errorf("a line does not read well: %q", l)
		}
	}
}

// Refusals that are no policy's verdict begin with another word, and PermissionDenied is
// never theirs.
func TestRefusalTexts(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		err  error
		want string
	}{
		{"an outage", unavailable(audit.Receipt{ID: someID}, "BW-BOOK-001", "the decision could not be written down"), "REFUSED BW-BOOK-001: the decision could not be written down (decision 0192f000-0000-7000-8000-000000000001)\nnothing was sent to the machine; try again"},
		{"without an entry", refusal(codes.ResourceExhausted, audit.Receipt{}, "BW-LIMIT-001", "too many calls"), "REFUSED BW-LIMIT-001: too many calls"},
		{"hints beyond three are left out, empty ones too", refusal(codes.Aborted, audit.Receipt{}, "BW-X", "m", "", "1", "2\n", "3", "4"), "REFUSED BW-X: m\n1\n2\n3"},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := status.Convert(row.err).Message()
			if diff := cmp.Diff(row.want, got); diff != "" {
				t.Error(diff)
			}
			readsWell(t, got)
		})
	}
}

func FuzzOneLine(f *testing.F) {
	for _, s := range []string{"", " ", "plain", "a\nb", "\x00\x1b[2J", "\u2028\u2029\u0085", "\xff\xfe", strings.Repeat("ü ", 500), "\u202etxt.exe"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := oneLine(s)
		if !utf8.ValidString(got) || strings.ContainsFunc(got, unicode.IsControl) || strings.ContainsAny(got, "\n\r\u2028\u2029") {
			t.Fatalf("%q became %q", s, got)
		}
		if oneLine(got) != got {
			t.Fatalf("%q is not left as it is", got)
		}
	})
}

func FuzzPrintable(f *testing.F) {
	for _, s := range []string{"", "/machine.MachineService/Version", "a\x00b", "\xff", "\"", "\\", strings.Repeat("é", 300), "\u200b\u2028", strings.Repeat("a", 199) + "é"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := printable(s)
		if !utf8.ValidString(got) || strings.ContainsFunc(got, unicode.IsControl) || len(got) > 2500 {
			t.Fatalf("%q became %q", s, got)
		}
		if s != "" && len(s) <= 200 && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' }) && got != s {
			t.Fatalf("plain %q became %q", s, got)
		}
	})
}

// FuzzErrorAnswer holds that any failure, with any text, can be told as an answer.
func FuzzErrorAnswer(f *testing.F) {
	f.Add("w1", "busy", uint32(codes.Internal), false)
	f.Add("", "", uint32(0), true)
	f.Add("w\xff1", "bad \xff\xfe text", uint32(codes.Unknown), false)
	f.Add("w1", strings.Repeat("x", 70000), uint32(99), true)
	f.Fuzz(func(t *testing.T, name, text string, code uint32, stream bool) {
		if code == 0 {
			code = uint32(codes.Unknown)
		}
		raw, err := errorAnswer(name, status.Error(codes.Code(code), text), stream)
		if err != nil {
			t.Fatalf("a failure cannot be told: %v", err)
		}
		var element common.Empty
		if stream {
			err = proto.Unmarshal(raw, &element)
		} else {
			var whole common.EmptyResponse
			if err = proto.Unmarshal(raw, &whole); err == nil && len(whole.GetMessages()) != 1 {
				t.Fatalf("%d elements", len(whole.GetMessages()))
			}
			if err == nil {
				proto.Merge(&element, whole.GetMessages()[0])
			}
		}
		if err != nil {
			t.Fatalf("the answer cannot be read: %v", err)
		}
		if element.GetMetadata().GetError() == "" || element.GetMetadata().GetStatus().GetCode() != int32(code) {
			t.Fatalf("got %v", &element)
		}
	})
}
