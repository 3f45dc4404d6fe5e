package facts

import (
	cosi "github.com/cosi-project/runtime/api/v1alpha1"
	"github.com/siderolabs/talos/pkg/machinery/api/machine"
	"google.golang.org/protobuf/proto"

	"bronzeward/policy"
)

// MaxMessage is the largest request message in bytes: Talos's own limit.
const MaxMessage = 32 << 20

// Parsed is what one request message asks.
type Parsed struct {
	// Call has Method, Class, Stream, Mode, ModeGiven, DryRun, TryTimeoutSeconds, Size,
	// Resource, Path and Service set. Targets and Cluster are left to the caller.
	Call policy.Call
	// Apply is set for ApplyConfiguration only.
	Apply *ApplyRequest
}

// ApplyRequest is the content of an ApplyConfiguration request.
type ApplyRequest struct {
	// Data is the configuration text: a part of the message's own buffer, not a copy.
	Data []byte
	// Mode is the mode as talosctl spells it; "reboot" when it is left out.
	Mode string
	// ModeGiven is false when the request leaves the mode out, which Talos reads as REBOOT.
	ModeGiven bool
	DryRun    bool
	// TryTimeoutSeconds is the rollback time, rounded up; zero unless Mode is "try".
	TryTimeoutSeconds int64
}

// ParseCall reads the single message of a Call. The message is only read; what is
// forwarded is the same buffer. Errors are *Refusal.
//
// For every method the message must be well-formed protobuf of the method's request
// type, and no singular field may occur twice. For a method that mutates, fields the
// type does not know are refused too, at any depth.
//
// What a request names and Facts therefore hold (a path, a service, a resource) is bounded
// and printable. A path is judged as the text the node gets: Read and Copy must name one in
// its only spelling; List and DiskUsage may leave out the first slash or add one at the end.
func ParseCall(m Method, message []byte) (Parsed, error) {
	call := policy.Call{Method: m.Name, Class: m.Class, Stream: m.ServerStream, Size: len(message)}
	if len(message) > MaxMessage {
		return Parsed{}, refuse(ReasonTooLarge, "the request has %d bytes, more than the %d allowed", len(message), MaxMessage)
	}
	if m.ClientStream {
		return Parsed{}, refuse(ReasonUnsupported, "%s uploads a stream, which cannot be judged whole", m.Name)
	}
	request := requestOf(m)
	if request == nil {
		return Parsed{}, refuse(ReasonUnsupported, "%s does not exist in talos %s", m.Name, SupportedMinor)
	}
	if err := checkWire(request, message, m.Mutates()); err != nil {
		return Parsed{}, err
	}

	parsed := Parsed{Call: call}
	if m.Applies() {
		apply, err := parseApply(message)
		if err != nil {
			return Parsed{}, err
		}
		parsed.Apply = apply
		parsed.Call.Mode, parsed.Call.ModeGiven = apply.Mode, apply.ModeGiven
		parsed.Call.DryRun, parsed.Call.TryTimeoutSeconds = apply.DryRun, apply.TryTimeoutSeconds
		return parsed, nil
	}
	if err := parsed.fill(m, message); err != nil {
		return Parsed{}, err
	}
	return parsed, nil
}

// fill reads the fields of other requests that Facts name.
func (p *Parsed) fill(m Method, message []byte) error {
	read := func(into proto.Message) error {
		if err := proto.Unmarshal(message, into); err != nil {
			return refuse(ReasonMalformed, "the request is not a well-formed %s", into.ProtoReflect().Descriptor().Name())
		}
		return nil
	}

	switch m.Name {
	case "/cosi.resource.State/Get":
		var in cosi.GetRequest
		if err := read(&in); err != nil {
			return err
		}
		return p.resource(in.GetNamespace(), in.GetType(), in.GetId())
	case "/cosi.resource.State/List":
		var in cosi.ListRequest
		if err := read(&in); err != nil {
			return err
		}
		return p.resource(in.GetNamespace(), in.GetType(), "")
	case "/cosi.resource.State/Watch":
		var in cosi.WatchRequest
		if err := read(&in); err != nil {
			return err
		}
		return p.resource(in.GetNamespace(), in.GetType(), in.GetId())
	case "/cosi.resource.State/Create", "/cosi.resource.State/Update", "/cosi.resource.State/Destroy":
		return p.writes(m, read)
	case "/machine.MachineService/Read":
		var in machine.ReadRequest
		if err := read(&in); err != nil {
			return err
		}
		return p.path(exactPath(in.GetPath()))
	case "/machine.MachineService/Copy":
		var in machine.CopyRequest
		if err := read(&in); err != nil {
			return err
		}
		return p.path(exactPath(in.GetRootPath()))
	case "/machine.MachineService/List":
		var in machine.ListRequest
		if err := read(&in); err != nil {
			return err
		}
		return p.path(loosePath(in.GetRoot()))
	case "/machine.MachineService/DiskUsage":
		var in machine.DiskUsageRequest
		if err := read(&in); err != nil {
			return err
		}
		return p.path(loosePaths(in.GetPaths()))
	case "/machine.MachineService/Logs":
		var in machine.LogsRequest
		if err := read(&in); err != nil {
			return err
		}
		return p.service(in.GetId())
	case "/machine.MachineService/ServiceStart":
		var in machine.ServiceStartRequest
		if err := read(&in); err != nil {
			return err
		}
		return p.service(in.GetId())
	case "/machine.MachineService/ServiceStop":
		var in machine.ServiceStopRequest
		if err := read(&in); err != nil {
			return err
		}
		return p.service(in.GetId())
	case "/machine.MachineService/ServiceRestart":
		var in machine.ServiceRestartRequest
		if err := read(&in); err != nil {
			return err
		}
		return p.service(in.GetId())
	case "/machine.MachineService/Restart":
		var in machine.RestartRequest
		if err := read(&in); err != nil {
			return err
		}
		return p.service(in.GetId())
	}
	return nil
}

// writes names the resource a COSI write is about. Talos refuses all of them.
func (p *Parsed) writes(m Method, read func(proto.Message) error) error {
	var meta *cosi.Metadata
	switch m.Name {
	case "/cosi.resource.State/Create":
		var in cosi.CreateRequest
		if err := read(&in); err != nil {
			return err
		}
		meta = in.GetResource().GetMetadata()
	case "/cosi.resource.State/Update":
		var in cosi.UpdateRequest
		if err := read(&in); err != nil {
			return err
		}
		meta = in.GetNewResource().GetMetadata()
	default:
		var in cosi.DestroyRequest
		if err := read(&in); err != nil {
			return err
		}
		meta = &cosi.Metadata{Namespace: in.GetNamespace(), Type: in.GetType(), Id: in.GetId()}
	}
	return p.names(meta.GetNamespace(), meta.GetType(), meta.GetId())
}

// resource names what a COSI read is about and classes the Call by its type.
func (p *Parsed) resource(namespace, typ, id string) error {
	p.Call.Class = ClassOfResource(typ)
	return p.names(namespace, typ, id)
}

func (p *Parsed) names(namespace, typ, id string) error {
	for _, named := range []struct{ what, name string }{{"namespace", namespace}, {"resource type", typ}, {"resource id", id}} {
		if err := checkNamed(named.what, named.name); err != nil {
			return err
		}
	}
	p.Call.Resource = &policy.Resource{Namespace: namespace, Type: typ, ID: id}
	return nil
}

func (p *Parsed) path(judged string, err error) error {
	p.Call.Path = judged
	return err
}

func (p *Parsed) service(id string) error {
	if err := checkNamed("service", id); err != nil {
		return err
	}
	p.Call.Service = id
	return nil
}
