package upstream

import (
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	cosi "github.com/cosi-project/runtime/api/v1alpha1"
	"github.com/siderolabs/talos/pkg/machinery/api/machine"
	"github.com/siderolabs/talos/pkg/machinery/api/resource/config"
	"github.com/siderolabs/talos/pkg/machinery/api/resource/definitions/cluster"
	"github.com/siderolabs/talos/pkg/machinery/api/resource/definitions/enums"
	"github.com/siderolabs/talos/pkg/machinery/api/resource/definitions/hardware"
	"github.com/siderolabs/talos/pkg/machinery/api/resource/definitions/runtime"
	"google.golang.org/protobuf/proto"
)

// resourceName names a COSI resource.
type resourceName struct{ namespace, kind, id string }

// The resources Evidence is read from; a test holds them against machinery.
var (
	stageResource      = resourceName{"runtime", "MachineStatuses.runtime.talos.dev", "machine"}
	typeResource       = resourceName{"config", "MachineTypes.config.talos.dev", "machine-type"}
	identityResource   = resourceName{"cluster", "Identities.cluster.talos.dev", "local"}
	clusterResource    = resourceName{"cluster", "Infos.cluster.talos.dev", "current"}
	systemResource     = resourceName{"hardware", "SystemInformations.hardware.talos.dev", "systeminformation"}
	activeResource     = resourceName{"config", "MachineConfigs.config.talos.dev", "v1alpha1"}
	persistentResource = resourceName{"config", "MachineConfigs.config.talos.dev", "persistent"}
)

// maxIdentity bounds an identity, in bytes; Talos's are 44, an UUID is 36.
const maxIdentity = 128

// malformed is an answer that is not what was asked for. Its text holds no value.
type malformed struct{ reason string }

func (m *malformed) Error() string { return m.reason }

func malformedf(format string, args ...any) error {
	return &malformed{reason: fmt.Sprintf(format, args...)}
}

// check refuses a resource that is not the one asked for, is being taken down, or lacks
// what identifies its state.
func (n resourceName) check(r *cosi.Resource) error {
	md := r.GetMetadata()

	switch {
	case md == nil:
		return malformedf("the answer has no resource")
	case md.GetNamespace() != n.namespace || md.GetType() != n.kind || md.GetId() != n.id:
		return malformedf("the answer is another resource than the one asked for")
	case md.GetPhase() != "running":
		return malformedf("the resource is being taken down")
	case md.GetVersion() == "" || md.GetVersion() == "undefined" || len(md.GetVersion()) > maxIdentity:
		return malformedf("the resource has no version")
	case md.GetCreated() == nil || md.GetCreated().CheckValid() != nil || md.GetCreated().AsTime().Equal(time.Unix(0, 0)):
		return malformedf("the resource has no time of creation")
	case r.GetSpec() == nil:
		return malformedf("the resource has no content")
	}

	return nil
}

func unmarshal(r *cosi.Resource, into proto.Message) error {
	// The error may quote what it could not read, so it is not passed on.
	if err := proto.Unmarshal(r.GetSpec().GetProtoSpec(), into); err != nil {
		return malformedf("the content cannot be decoded")
	}

	return nil
}

var versionTag = regexp.MustCompile(`^v(0|[1-9]\d{0,3})\.(0|[1-9]\d{0,3})\.(0|[1-9]\d{0,5})(-[0-9A-Za-z.-]{1,64})?(\+[0-9A-Za-z.-]{1,64})?$`)

func takeVersion(resp *machine.VersionResponse, e *Evidence) error {
	if len(resp.GetMessages()) != 1 {
		return malformedf("%d machines answered, not one", len(resp.GetMessages()))
	}

	m := resp.GetMessages()[0]
	if m.GetMetadata().GetError() != "" || m.GetMetadata().GetStatus().GetCode() != 0 {
		return malformedf("the answer holds an error of another hop")
	}

	var err error
	e.Version, e.Minor, err = ReadVersion(m.GetVersion().GetTag())

	return err
}

// ReadVersion reads a Talos version, "v1.13.6", and its minor, "1.13".
func ReadVersion(tag string) (version, minor string, err error) {
	parts := versionTag.FindStringSubmatch(tag)
	if parts == nil {
		return "", "", malformedf("the version is none of Talos's form")
	}

	return parts[0], parts[1] + "." + parts[2], nil
}

func takeStage(r *cosi.Resource, e *Evidence) error {
	var spec runtime.MachineStatusSpec
	if err := unmarshal(r, &spec); err != nil {
		return err
	}

	name, ok := enums.RuntimeMachineStage_name[int32(spec.GetStage())]
	if !ok {
		return malformedf("the stage %d is not known", spec.GetStage())
	}

	// As Talos spells it: MACHINE_STAGE_SHUTTING_DOWN is "shutting down".
	e.Stage = strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(name, "MACHINE_STAGE_"), "_", " "))

	return nil
}

func takeType(r *cosi.Resource, e *Evidence) error {
	var spec config.MachineTypeSpec
	if err := unmarshal(r, &spec); err != nil {
		return err
	}

	switch spec.GetMachineType() {
	case config.MachineType_WORKER:
		e.Type = "worker"
	case config.MachineType_CONTROL_PLANE:
		e.Type = "controlplane"
	case config.MachineType_INIT:
		e.Type = "init"
	case config.MachineType_UNKNOWN:
		e.Type = "unknown"
	default:
		return malformedf("the machine type %d is not known", spec.GetMachineType())
	}

	return nil
}

func takeIdentity(r *cosi.Resource, e *Evidence) error {
	var spec cluster.IdentitySpec
	if err := unmarshal(r, &spec); err != nil {
		return err
	}

	return identity(spec.GetNodeId(), &e.NodeID)
}

func takeCluster(r *cosi.Resource, e *Evidence) error {
	var spec cluster.InfoSpec
	if err := unmarshal(r, &spec); err != nil {
		return err
	}

	return identity(spec.GetClusterId(), &e.ClusterID)
}

func takeSystem(r *cosi.Resource, e *Evidence) error {
	var spec hardware.SystemInformationSpec
	if err := unmarshal(r, &spec); err != nil {
		return err
	}

	if spec.GetUuid() == "" {
		return nil // a board without one
	}

	return identity(spec.GetUuid(), &e.SMBIOS)
}

// identity takes printable ASCII only: it is compared, stored and shown.
func identity(s string, into *string) error {
	if s == "" || len(s) > maxIdentity {
		return malformedf("the identity is empty or too long")
	}

	for _, c := range []byte(s) {
		if c <= ' ' || c > '~' {
			return malformedf("the identity has characters it should not have")
		}
	}

	*into = s

	return nil
}

func takeDocument(field func(*Evidence) *Document) func(*cosi.Resource, *Evidence) error {
	return func(r *cosi.Resource, e *Evidence) error {
		var spec config.MachineConfigSpec
		if err := unmarshal(r, &spec); err != nil {
			return err
		}

		if len(spec.GetYamlMarshalled()) == 0 {
			return malformedf("the configuration is empty")
		}

		md := r.GetMetadata()
		if !utf8.ValidString(md.GetVersion()) {
			return malformedf("the version is no text")
		}

		*field(e) = Document{Text: spec.GetYamlMarshalled(), Version: md.GetVersion(), Created: md.GetCreated().AsTime()}

		return nil
	}
}
