package facts

import (
	"errors"
	"path"
	"strings"
	"testing"

	cosi "github.com/cosi-project/runtime/api/v1alpha1"
	"github.com/siderolabs/talos/pkg/machinery/api/machine"
	"google.golang.org/protobuf/proto"
)

// naming makes the request of each method that names a path.
func naming(raw string) map[string]proto.Message {
	return map[string]proto.Message{
		"/machine.MachineService/Read":      &machine.ReadRequest{Path: raw},
		"/machine.MachineService/Copy":      &machine.CopyRequest{RootPath: raw},
		"/machine.MachineService/List":      &machine.ListRequest{Root: raw},
		"/machine.MachineService/DiskUsage": &machine.DiskUsageRequest{Paths: []string{raw}},
	}
}

func refusedAs(t *testing.T, method string, in proto.Message, want Reason) {
	t.Helper()
	got, err := ParseCall(row(t, method), marshal(t, in))
	var refusal *Refusal
	if !errors.As(err, &refusal) || refusal.Reason != want {
		t.Fatalf("got %+v, %v; want a refusal as %s", got.Call, err, want)
	}
	if len(refusal.Message) > 400 || strings.ContainsFunc(refusal.Message, func(r rune) bool { return r < ' ' || r > '~' && r != '…' }) {
		t.Fatalf("not fit to print: %q", refusal.Message)
	}
}

// The node opens the text that is forwarded, so a path that only cleaning makes the
// allowed one may be any file: /proc/1/cwd is a link.
func TestAPathIsForwardedOnlyAsItIsJudged(t *testing.T) {
	hostile := map[string]string{
		"through a link and up":     "/proc/1/cwd/../../sys/kernel/random/boot_id",
		"up from the root":          "/../proc/sys/kernel/random/boot_id",
		"up at the end":             "/var/..",
		"nothing but up":            "..",
		"here":                      "/proc/./sys",
		"nothing but here":          ".",
		"two slashes":               "/proc//sys",
		"two slashes at the start":  "//proc/sys",
		"two slashes at the end":    "/proc/sys//",
		"nothing but two slashes":   "//",
		"a NUL":                     "/proc/sys\x00/etc/shadow",
		"a line feed":               "/proc\n/sys",
		"a C1 control":              "/proc/\u0085sys",
		"a turn of the direction":   "/proc/\u202esys",
		"a character without width": "/proc/\u200bsys",
	}
	for name, raw := range hostile {
		for method, in := range naming(raw) {
			t.Run(name+" "+path.Base(method), func(t *testing.T) { refusedAs(t, method, in, ReasonMalformed) })
		}
	}
	// What talosctl's list and usage send is taken there, and nowhere else.
	for name, raw := range map[string]string{"no first slash": "proc/sys", "a slash at the end": "/proc/sys/", "nothing": ""} {
		for method, in := range naming(raw) {
			t.Run(name+" "+path.Base(method), func(t *testing.T) {
				if strings.HasSuffix(method, "Read") || strings.HasSuffix(method, "Copy") {
					refusedAs(t, method, in, ReasonMalformed)
					return
				}
				got, err := ParseCall(row(t, method), marshal(t, in))
				if want := map[bool]string{true: "/", false: "/proc/sys"}[raw == ""]; err != nil || got.Call.Path != want {
					t.Fatalf("got %q, %v; want %q", got.Call.Path, err, want)
				}
			})
		}
	}
	for method, in := range naming("/proc/sys/kernel/random/boot_id") {
		if got, err := ParseCall(row(t, method), marshal(t, in)); err != nil || got.Call.Path != "/proc/sys/kernel/random/boot_id" {
			t.Errorf("%s: got %q, %v", method, got.Call.Path, err)
		}
	}
}

// Control: cleaning alone, which is all there is without exactPath, makes the allowed file
// of another one.
func TestCleaningAloneMakesTheAllowedFileOfAnother(t *testing.T) {
	const raw, allowed = "/proc/1/cwd/../../sys/kernel/random/boot_id", "/proc/sys/kernel/random/boot_id"
	if clean(raw) != allowed {
		t.Fatalf("cleaned to %s: this control needs another path", clean(raw))
	}
	if _, err := exactPath(raw); err == nil {
		t.Fatal("the guard takes it")
	}
}

func TestAListOfPathsIsBoundedAndPlain(t *testing.T) {
	const method = "/machine.MachineService/DiskUsage"
	many := make([]string, maxPaths+1)
	for i := range many {
		many[i] = "/v"
	}
	long := "/" + strings.Repeat("x", maxNamed/2)
	for name, row := range map[string]struct {
		paths []string
		want  Reason
	}{
		"65 paths":                {many, ReasonTooLarge},
		"4 KiB together":          {[]string{long, long}, ReasonTooLarge},
		"a comma":                 {[]string{"/a,/b"}, ReasonMalformed},
		"one of them leads up":    {[]string{"/var", "/etc/../x"}, ReasonMalformed},
		"one of them is two here": {[]string{"/var", "//"}, ReasonMalformed},
	} {
		t.Run(name, func(t *testing.T) { refusedAs(t, method, &machine.DiskUsageRequest{Paths: row.paths}, row.want) })
	}
	if got, err := ParseCall(row(t, method), marshal(t, &machine.DiskUsageRequest{Paths: many[:maxPaths]})); err != nil || strings.Count(got.Call.Path, ",") != maxPaths-1 {
		t.Fatalf("64 paths: %q, %v", got.Call.Path, err)
	}
}

// Whatever a request names goes into Facts and the book, so it is bounded there.
func TestNothingARequestNamesIsLarge(t *testing.T) {
	huge := strings.Repeat("x", 10<<20)
	over := strings.Repeat("x", maxNamed+1)
	for _, long := range []string{huge, over} {
		for method, in := range naming("/" + long) {
			refusedAs(t, method, in, ReasonTooLarge)
		}
		for method, in := range map[string]proto.Message{
			"/machine.MachineService/Logs":           &machine.LogsRequest{Id: long},
			"/machine.MachineService/ServiceStart":   &machine.ServiceStartRequest{Id: long},
			"/machine.MachineService/ServiceStop":    &machine.ServiceStopRequest{Id: long},
			"/machine.MachineService/ServiceRestart": &machine.ServiceRestartRequest{Id: long},
			"/machine.MachineService/Restart":        &machine.RestartRequest{Id: long},
			"/cosi.resource.State/Get":               &cosi.GetRequest{Namespace: long, Type: "t", Id: "i"},
			"/cosi.resource.State/List":              &cosi.ListRequest{Namespace: "n", Type: long},
			"/cosi.resource.State/Watch":             &cosi.WatchRequest{Namespace: "n", Type: "t", Id: proto.String(long)},
			"/cosi.resource.State/Create":            &cosi.CreateRequest{Resource: &cosi.Resource{Metadata: &cosi.Metadata{Id: long}}},
			"/cosi.resource.State/Update":            &cosi.UpdateRequest{NewResource: &cosi.Resource{Metadata: &cosi.Metadata{Type: long}}},
			"/cosi.resource.State/Destroy":           &cosi.DestroyRequest{Namespace: long},
		} {
			refusedAs(t, method, in, ReasonTooLarge)
		}
	}
	refusedAs(t, "/machine.MachineService/Logs", &machine.LogsRequest{Id: "kube\u202elet"}, ReasonMalformed)
	refusedAs(t, "/cosi.resource.State/Get", &cosi.GetRequest{Type: "t\n"}, ReasonMalformed)
	if _, err := ParseCall(row(t, "/machine.MachineService/Read"), marshal(t, &machine.ReadRequest{Path: "/" + strings.Repeat("x", maxNamed-1)})); err != nil {
		t.Errorf("a path of %d bytes: %v", maxNamed, err)
	}
}
