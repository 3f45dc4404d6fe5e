package people

import (
	"crypto/tls"
	"encoding/base64"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	grpcpeer "google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/fixtures/talosctlbin"
)

// callSeen is what talosctl showed.
type callSeen struct {
	subject, authorization, cluster, node string
}

// talosSide is where talosctl is pointed: it refuses every call and tells what came.
func (w *loginWorld) talosSide(t *testing.T) (address string, seen <-chan callSeen) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	calls := make(chan callSeen, 16)
	conf := &tls.Config{Certificates: w.TLS.Certificates, ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS13}
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(conf)), grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		one := callSeen{}
		if from, ok := grpcpeer.FromContext(stream.Context()); ok {
			if shown := from.AuthInfo.(credentials.TLSInfo).State.PeerCertificates; len(shown) > 0 {
				one.subject = shown[0].Subject.CommonName
			}
		}
		md, _ := metadata.FromIncomingContext(stream.Context())
		one.authorization, one.cluster, one.node = strings.Join(md["authorization"], ","), strings.Join(md["context"], ","), strings.Join(md["nodes"], ",")
		calls <- one
		return status.Error(codes.PermissionDenied, "DENIED here")
	}))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		server.Stop()
		<-done
	})
	return listener.Addr().String(), calls
}

// The real talosctl reads what login writes, and shows it where it is pointed.
func TestTheRealTalosctlUsesWhatLoginWrote(t *testing.T) {
	talosctl, err := talosctlbin.Path(t.Context(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	w := newLoginWorld(t)
	address, seen := w.talosSide(t)
	w.offers = func(o *loginOffer) { o.TalosEndpoints, o.Clusters = []string{address}, []string{"lab", "shop"} }
	ctl := func(args ...string) string {
		t.Helper()
		out, _ := exec.CommandContext(t.Context(), talosctl, args...).CombinedOutput() // refused calls are errors
		return string(out)
	}
	writeFile(t, w.talosconfig, "context: home\ncontexts:\n    home:\n        endpoints: [10.0.0.1]\n        future: 1\n")
	if got := w.login(t, "olga"); got.Code != cli.ExitOK {
		t.Fatalf("code %d\n%s", got.Code, got.ErrOut)
	}
	list := ctl("config", "contexts")
	for _, want := range []string{"home", "lab", "shop", address, "10.0.0.1"} {
		if !strings.Contains(list, want) {
			t.Errorf("contexts has no %s:\n%s", want, list)
		}
	}
	info := ctl("--context", "lab", "config", "info")
	for _, want := range []string{address, "7 hours"} {
		if !strings.Contains(info, want) {
			t.Errorf("info has no %q:\n%s", want, info)
		}
	}
	out := ctl("--context", "shop", "-n", "worker-1", "version")
	if got := <-seen; !strings.Contains(out, "DENIED here") || got != (callSeen{subject: "olga", cluster: "shop", node: "worker-1"}) {
		t.Errorf("came as %+v:\n%s", got, out)
	}

	// A token in its place.
	token, err := w.idp.Token("bot-ci")
	if err != nil {
		t.Fatal(err)
	}
	file := writeFile(t, filepath.Join(t.TempDir(), "token"), token)
	if got := runProgram(t, "login", "--jwt", file, "--set-current"); got.Code != cli.ExitOK {
		t.Fatalf("code %d\n%s", got.Code, got.ErrOut)
	}
	out = ctl("-n", "worker-1", "version")
	want := callSeen{authorization: "Basic " + base64.StdEncoding.EncodeToString([]byte("bot-ci:"+token)), cluster: "lab", node: "worker-1"}
	if got := <-seen; !strings.Contains(out, "DENIED here") || got != want {
		t.Errorf("came as %+v, want %+v:\n%s", got, want, out)
	}

	// What talosctl writes itself is taken as ours all the same, and is gone after a logout.
	if out := ctl("config", "context", "shop"); !strings.Contains(readFile(t, w.talosconfig), "context: shop") {
		t.Fatalf("talosctl config context: %s", out)
	}
	if got := w.login(t, "olga"); got.Code != cli.ExitOK || !strings.Contains(got.Out, "the current one stays shop") {
		t.Errorf("code %d\n%s%s", got.Code, got.Out, got.ErrOut)
	}
	if got := runProgram(t, "logout"); got.Code != cli.ExitOK {
		t.Errorf("code %d\n%s", got.Code, got.ErrOut)
	}
	if list := ctl("config", "contexts"); strings.Contains(list, "lab") || strings.Contains(list, "shop") || !strings.Contains(list, "home") {
		t.Errorf("after logout:\n%s", list)
	}
}
