package facts

import "bronzeward/policy"

// rows is the method table, written by hand: one row per method that apid serves in
// Talos 1.13 or 1.14. CheckTable holds it against the services of the supported minor.
//
// How a method got its class, where that is not plain:
//   - HealthCheck, Verify and TimeCheck make the node dial what the caller names.
//   - EtcdDowngradeValidate only checks, but Talos keeps it for os:admin, so it is
//     kept with the reads that are closed by default.
//   - BlockDeviceWipe and ApplyConfiguration are open to os:reader in maintenance mode
//     only; Reader speaks of running nodes and is false for both.
func rows() []Method {
	both := []string{"1.13", "1.14"}
	next := []string{"1.14"}

	return []Method{
		{Name: "/cluster.ClusterService/HealthCheck", Class: policy.ClassEgress, ServerStream: true, Nodes: true, Reader: true, Minors: both},

		{Name: "/cosi.resource.State/Create", Class: policy.ClassMutate, Minors: both},
		{Name: "/cosi.resource.State/Destroy", Class: policy.ClassMutate, Minors: both},
		{Name: "/cosi.resource.State/Get", Class: policy.ClassRead, Reader: true, Minors: both},
		{Name: "/cosi.resource.State/List", Class: policy.ClassRead, ServerStream: true, Reader: true, Minors: both},
		{Name: "/cosi.resource.State/Teardown", Class: policy.ClassMutate, Minors: next},
		{Name: "/cosi.resource.State/TeardownAndDestroy", Class: policy.ClassMutate, Minors: next},
		{Name: "/cosi.resource.State/Update", Class: policy.ClassMutate, Minors: both},
		{Name: "/cosi.resource.State/Watch", Class: policy.ClassRead, ServerStream: true, Reader: true, Minors: both},

		{Name: "/inspect.InspectService/ControllerRuntimeDependencies", Class: policy.ClassRead, Nodes: true, Reader: true, Minors: both},

		{Name: "/machine.DebugService/ContainerRun", Class: policy.ClassUpload, ClientStream: true, ServerStream: true, Minors: both},

		{Name: "/machine.ImageService/Import", Class: policy.ClassUpload, ClientStream: true, Minors: both},
		{Name: "/machine.ImageService/List", Class: policy.ClassRead, ServerStream: true, Reader: true, Minors: both},
		{Name: "/machine.ImageService/Pull", Class: policy.ClassMutate, ServerStream: true, Minors: both},
		{Name: "/machine.ImageService/Remove", Class: policy.ClassMutate, Minors: both},
		{Name: "/machine.ImageService/Verify", Class: policy.ClassEgress, Reader: true, Minors: both},

		{Name: "/machine.LVMService/LogicalVolumeRemove", Class: policy.ClassMutate, Minors: next},
		{Name: "/machine.LVMService/PhysicalVolumeRemove", Class: policy.ClassMutate, Minors: next},
		{Name: "/machine.LVMService/VolumeGroupRemove", Class: policy.ClassMutate, Minors: next},

		{Name: "/machine.LifecycleService/Install", Class: policy.ClassMutate, ServerStream: true, Minors: both},
		{Name: "/machine.LifecycleService/Upgrade", Class: policy.ClassMutate, ServerStream: true, Minors: both},

		{Name: "/machine.MDService/Destroy", Class: policy.ClassMutate, Minors: next},

		{Name: "/machine.MachineService/ApplyConfiguration", Class: policy.ClassApply, Nodes: true, Minors: both},
		{Name: "/machine.MachineService/Bootstrap", Class: policy.ClassMutate, Nodes: true, Minors: both},
		{Name: "/machine.MachineService/CPUFreqStats", Class: policy.ClassRead, Nodes: true, Reader: true, Minors: both},
		{Name: "/machine.MachineService/CPUInfo", Class: policy.ClassRead, Nodes: true, Reader: true, Minors: both},
		{Name: "/machine.MachineService/Containers", Class: policy.ClassRead, Nodes: true, Reader: true, Minors: both},
		{Name: "/machine.MachineService/Copy", Class: policy.ClassSensitiveRead, ServerStream: true, Nodes: true, Minors: both},
		{Name: "/machine.MachineService/DiskStats", Class: policy.ClassRead, Nodes: true, Reader: true, Minors: both},
		{Name: "/machine.MachineService/DiskUsage", Class: policy.ClassRead, ServerStream: true, Nodes: true, Reader: true, Minors: both},
		{Name: "/machine.MachineService/Dmesg", Class: policy.ClassRead, ServerStream: true, Nodes: true, Reader: true, Minors: both},
		{Name: "/machine.MachineService/EtcdAlarmDisarm", Class: policy.ClassMutate, Nodes: true, Minors: both},
		{Name: "/machine.MachineService/EtcdAlarmList", Class: policy.ClassRead, Nodes: true, Reader: true, Minors: both},
		{Name: "/machine.MachineService/EtcdDefragment", Class: policy.ClassMutate, Nodes: true, Minors: both},
		{Name: "/machine.MachineService/EtcdDowngradeCancel", Class: policy.ClassMutate, Nodes: true, Minors: both},
		{Name: "/machine.MachineService/EtcdDowngradeEnable", Class: policy.ClassMutate, Nodes: true, Minors: both},
		{Name: "/machine.MachineService/EtcdDowngradeValidate", Class: policy.ClassSensitiveRead, Nodes: true, Minors: both},
		{Name: "/machine.MachineService/EtcdForfeitLeadership", Class: policy.ClassMutate, Nodes: true, Minors: both},
		{Name: "/machine.MachineService/EtcdLeaveCluster", Class: policy.ClassMutate, Nodes: true, Minors: both},
		{Name: "/machine.MachineService/EtcdMemberList", Class: policy.ClassRead, Nodes: true, Reader: true, Minors: both},
		{Name: "/machine.MachineService/EtcdRecover", Class: policy.ClassUpload, ClientStream: true, Nodes: true, Minors: both},
		{Name: "/machine.MachineService/EtcdRemoveMemberByID", Class: policy.ClassMutate, Nodes: true, Minors: both},
		{Name: "/machine.MachineService/EtcdSnapshot", Class: policy.ClassSensitiveRead, ServerStream: true, Nodes: true, Minors: both},
		{Name: "/machine.MachineService/EtcdStatus", Class: policy.ClassRead, Nodes: true, Reader: true, Minors: both},
		{Name: "/machine.MachineService/Events", Class: policy.ClassRead, ServerStream: true, Nodes: true, Reader: true, Minors: both},
		{Name: "/machine.MachineService/GenerateClientConfiguration", Class: policy.ClassMint, Nodes: true, Minors: both},
		{Name: "/machine.MachineService/Hostname", Class: policy.ClassRead, Nodes: true, Reader: true, Minors: both},
		{Name: "/machine.MachineService/ImageList", Class: policy.ClassRead, ServerStream: true, Nodes: true, Reader: true, Minors: both},
		{Name: "/machine.MachineService/ImagePull", Class: policy.ClassMutate, Nodes: true, Minors: both},
		{Name: "/machine.MachineService/Kubeconfig", Class: policy.ClassMint, ServerStream: true, Nodes: true, Minors: both},
		{Name: "/machine.MachineService/List", Class: policy.ClassRead, ServerStream: true, Nodes: true, Reader: true, Minors: both},
		{Name: "/machine.MachineService/LoadAvg", Class: policy.ClassRead, Nodes: true, Reader: true, Minors: both},
		{Name: "/machine.MachineService/Logs", Class: policy.ClassRead, ServerStream: true, Nodes: true, Reader: true, Minors: both},
		{Name: "/machine.MachineService/LogsContainers", Class: policy.ClassRead, Nodes: true, Reader: true, Minors: both},
		{Name: "/machine.MachineService/Memory", Class: policy.ClassRead, Nodes: true, Reader: true, Minors: both},
		{Name: "/machine.MachineService/MetaDelete", Class: policy.ClassMutate, Nodes: true, Minors: both},
		{Name: "/machine.MachineService/MetaWrite", Class: policy.ClassMutate, Nodes: true, Minors: both},
		{Name: "/machine.MachineService/Mounts", Class: policy.ClassRead, Nodes: true, Reader: true, Minors: both},
		{Name: "/machine.MachineService/Netstat", Class: policy.ClassRead, Nodes: true, Reader: true, Minors: both},
		{Name: "/machine.MachineService/NetworkDeviceStats", Class: policy.ClassRead, Nodes: true, Reader: true, Minors: both},
		{Name: "/machine.MachineService/PacketCapture", Class: policy.ClassSensitiveRead, ServerStream: true, Nodes: true, Minors: both},
		{Name: "/machine.MachineService/Processes", Class: policy.ClassRead, Nodes: true, Reader: true, Minors: both},
		{Name: "/machine.MachineService/Read", Class: policy.ClassSensitiveRead, ServerStream: true, Nodes: true, Minors: both},
		{Name: "/machine.MachineService/Reboot", Class: policy.ClassMutate, Nodes: true, Minors: both},
		{Name: "/machine.MachineService/Reset", Class: policy.ClassMutate, Nodes: true, Minors: both},
		{Name: "/machine.MachineService/Restart", Class: policy.ClassMutate, Nodes: true, Minors: both},
		{Name: "/machine.MachineService/Rollback", Class: policy.ClassMutate, Nodes: true, Minors: both},
		{Name: "/machine.MachineService/ServiceList", Class: policy.ClassRead, Nodes: true, Reader: true, Minors: both},
		{Name: "/machine.MachineService/ServiceRestart", Class: policy.ClassMutate, Nodes: true, Minors: both},
		{Name: "/machine.MachineService/ServiceStart", Class: policy.ClassMutate, Nodes: true, Minors: both},
		{Name: "/machine.MachineService/ServiceStop", Class: policy.ClassMutate, Nodes: true, Minors: both},
		{Name: "/machine.MachineService/Shutdown", Class: policy.ClassMutate, Nodes: true, Minors: both},
		{Name: "/machine.MachineService/Stats", Class: policy.ClassRead, Nodes: true, Reader: true, Minors: both},
		{Name: "/machine.MachineService/SystemStat", Class: policy.ClassRead, Nodes: true, Reader: true, Minors: both},
		{Name: "/machine.MachineService/Upgrade", Class: policy.ClassMutate, Nodes: true, Minors: both},
		{Name: "/machine.MachineService/Version", Class: policy.ClassRead, Nodes: true, Reader: true, Minors: both},

		{Name: "/storage.StorageService/BlockDeviceWipe", Class: policy.ClassMutate, Nodes: true, Minors: both},
		{Name: "/storage.StorageService/Disks", Class: policy.ClassRead, Nodes: true, Reader: true, Minors: both},

		{Name: "/time.TimeService/Time", Class: policy.ClassRead, Nodes: true, Reader: true, Minors: both},
		{Name: "/time.TimeService/TimeCheck", Class: policy.ClassEgress, Nodes: true, Reader: true, Minors: both},
	}
}
