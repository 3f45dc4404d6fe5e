package gateway

import (
	"slices"
	"testing"

	cosi "github.com/cosi-project/runtime/api/v1alpha1"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
)

// A law that allows everything opens no way for a revoked person (I4), and none for anybody to what hands out a credential or a
// secret of the machine. The control is another person's call, which that law lets through.
func TestACarelessLawOpensNothingThatNoLawMay(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(s *setup) { s.law = openLaw })
	h.revoke(t, "olga")
	secret := must(proto.Marshal(&cosi.GetRequest{
		Namespace: "secrets", Type: "OSRootSecrets.secrets.talos.dev", Id: "os", Options: &cosi.GetOptions{},
	}))(t)
	for _, row := range []struct {
		name, who, method string
		body              []byte
		code              string
	}{
		{"a read of a revoked person", "olga", methodVersion, nil, "BW-INVARIANT-001"},
		{"a mutation of a revoked person", "olga", "/machine.MachineService/ServiceRestart", dataField([]byte("cri")), "BW-INVARIANT-001"},
		{"a credential", "otto", "/machine.MachineService/Kubeconfig", nil, "BW-INVARIANT-021"},
		{"a client certificate", "otto", "/machine.MachineService/GenerateClientConfiguration", nil, "BW-INVARIANT-021"},
		{"a secret", "otto", methodGet, secret, "BW-INVARIANT-021"},
	} {
		t.Run(row.name, func(t *testing.T) {
			refusedWith(t, h.as(t, row.who).call(bounded(t), row.method, to("w1"), slices.Clone(row.body)), codes.PermissionDenied, row.code)
			if n := len(h.nodes["w1"].Log().Of(row.method)); n != 0 {
				t.Errorf("the node was sent %d", n)
			}
		})
	}
	succeeded(t, h.as(t, "otto").version(t, "w1"))
}
