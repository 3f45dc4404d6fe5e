package facts

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	// The descriptors of every service apid serves, and of one it does not.
	_ "github.com/cosi-project/runtime/api/v1alpha1"
	_ "github.com/siderolabs/talos/pkg/machinery/api/cluster"
	_ "github.com/siderolabs/talos/pkg/machinery/api/inspect"
	_ "github.com/siderolabs/talos/pkg/machinery/api/machine"
	_ "github.com/siderolabs/talos/pkg/machinery/api/storage"
	_ "github.com/siderolabs/talos/pkg/machinery/api/time"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"bronzeward/policy"
)

// SupportedMinor is the Talos minor whose descriptors are compiled in, and the only
// one applies are sent to.
const SupportedMinor = "1.13"

// served are the services apid 1.13 serves. Others of the same descriptors are not
// on port 50000: securityapi.SecurityService belongs to trustd.
func served() []string {
	return []string{
		"cluster.ClusterService",
		"cosi.resource.State",
		"inspect.InspectService",
		"machine.DebugService",
		"machine.ImageService",
		"machine.LifecycleService",
		"machine.MachineService",
		"storage.StorageService",
		"time.TimeService",
	}
}

// CheckTable compares the rows of a Talos minor with the services compiled into the
// binary, in both directions, and returns every disagreement joined. The server does
// not start on an error: a method without a row would be denied for no reason anybody
// wrote down, and a row without a method may hide a renamed one.
func CheckTable(minor string) error {
	if minor != SupportedMinor {
		return fmt.Errorf("checking method table: talos %q is not supported, only %s is", minor, SupportedMinor)
	}
	if err := checkTable(minor, rows(), served(), protoregistry.GlobalFiles); err != nil {
		return fmt.Errorf("checking method table for talos %s: %w", minor, err)
	}
	return nil
}

// finder is the part of a descriptor registry that checkTable needs.
type finder interface {
	FindDescriptorByName(protoreflect.FullName) (protoreflect.Descriptor, error)
}

func checkTable(minor string, rows []Method, services []string, files finder) error {
	var errs []error
	byName := make(map[string]Method, len(rows))
	for _, m := range rows {
		if _, twice := byName[m.Name]; twice {
			errs = append(errs, fmt.Errorf("%s has two rows", m.Name))
		}
		byName[m.Name] = m
	}

	seen := make(map[string]bool)
	for _, service := range services {
		found, err := files.FindDescriptorByName(protoreflect.FullName(service))
		if err != nil {
			errs = append(errs, fmt.Errorf("service %s is not compiled in: %w", service, err))
			continue
		}
		descriptor, ok := found.(protoreflect.ServiceDescriptor)
		if !ok {
			errs = append(errs, fmt.Errorf("%s is not a service", service))
			continue
		}
		for i := range descriptor.Methods().Len() {
			method := descriptor.Methods().Get(i)
			name := "/" + service + "/" + string(method.Name())
			seen[name] = true
			errs = append(errs, compareRow(minor, name, byName, method))
		}
	}

	for _, m := range rows {
		if m.In(minor) && !seen[m.Name] {
			errs = append(errs, fmt.Errorf("%s has a row and is not served", m.Name))
		}
	}
	return errors.Join(errs...)
}

func compareRow(minor, name string, byName map[string]Method, method protoreflect.MethodDescriptor) error {
	row, ok := byName[name]
	switch {
	case !ok || !row.In(minor):
		return fmt.Errorf("%s is served and has no row", name)
	case row.ClientStream != method.IsStreamingClient():
		return fmt.Errorf("%s: the row says client stream %t, the service %t", name, row.ClientStream, method.IsStreamingClient())
	case row.ServerStream != method.IsStreamingServer():
		return fmt.Errorf("%s: the row says server stream %t, the service %t", name, row.ServerStream, method.IsStreamingServer())
	case row.ClientStream != (row.Class == policy.ClassUpload):
		return fmt.Errorf("%s: client-streaming methods are uploads, and only they", name)
	case !slices.Contains(classes(), row.Class):
		return fmt.Errorf("%s has no known class", name)
	case row.Nodes != fansOut(row.Service()):
		return fmt.Errorf("%s: the row says nodes %t, apid %t", name, row.Nodes, !row.Nodes)
	}
	return nil
}

// fansOut says whether apid accepts `nodes` for the service.
func fansOut(service string) bool {
	return slices.Contains([]string{
		"cluster.ClusterService", "inspect.InspectService", "machine.MachineService",
		"storage.StorageService", "time.TimeService",
	}, service)
}

func classes() []policy.Class {
	return []policy.Class{
		policy.ClassRead, policy.ClassConfigRead, policy.ClassSecretRead, policy.ClassSensitiveRead, policy.ClassEgress,
		policy.ClassMint, policy.ClassApply, policy.ClassMutate, policy.ClassUpload,
	}
}

// requestOf finds the descriptor of the method's request message, nil when the method
// is not compiled in.
func requestOf(m Method) protoreflect.MessageDescriptor {
	full := protoreflect.FullName(strings.ReplaceAll(strings.TrimPrefix(m.Name, "/"), "/", "."))
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(full)
	if err != nil {
		return nil
	}
	method, ok := found.(protoreflect.MethodDescriptor)
	if !ok {
		return nil
	}
	return method.Input()
}
