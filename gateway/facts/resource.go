package facts

import "bronzeward/policy"

// machineConfigType is the resource that holds the whole configuration.
const machineConfigType = "MachineConfigs.config.talos.dev"

// resourceClasses is the class of every known resource type; it is never written
// after it is made.
var resourceClasses = func() map[string]policy.Class {
	out := map[string]policy.Class{machineConfigType: policy.ClassConfigRead}
	for _, typ := range sensitiveResources() {
		out[typ] = policy.ClassSecretRead
	}
	for _, typ := range plainResources() {
		out[typ] = policy.ClassRead
	}
	return out
}()

// ClassOfResource is the class of reading a COSI resource type: config-read for the
// machine configuration, read for the types Talos 1.13 registers and does not mark
// sensitive, and secret-read for everything else. An unknown type, a misspelled one
// and one of a later Talos are secret-reads.
func ClassOfResource(typ string) policy.Class {
	if class, ok := resourceClasses[typ]; ok {
		return class
	}
	return policy.ClassSecretRead
}

// sensitiveResources are the types Talos 1.13 marks sensitive, other than the
// machine configuration.
func sensitiveResources() []string {
	return []string{
		"APIServerConfigs.kubernetes.talos.dev",
		"ApiCertificates.secrets.talos.dev",
		"AuditPolicyConfigs.kubernetes.talos.dev",
		"AuthorizationConfigs.kubernetes.talos.dev",
		"CertSANs.secrets.talos.dev",
		"DeviceConfigSpecs.net.talos.dev",
		"DiscoveryConfigs.cluster.talos.dev",
		"EncryptionSalts.secrets.talos.dev",
		"EtcFileSpecs.files.talos.dev",
		"EtcdRootSecrets.secrets.talos.dev",
		"EtcdSecrets.secrets.talos.dev",
		"ExtensionServiceConfigs.runtime.talos.dev",
		"KubeSpanConfigs.kubespan.talos.dev",
		"KubeSpanIdentities.kubespan.talos.dev",
		"KubeletConfigs.kubernetes.talos.dev",
		"KubeletSecrets.secrets.talos.dev",
		"KubeletSpecs.kubernetes.talos.dev",
		"KubernetesDynamicCerts.secrets.talos.dev",
		"KubernetesRootSecrets.secrets.talos.dev",
		"KubernetesSecrets.secrets.talos.dev",
		"LinkSpecs.net.talos.dev",
		"MaintenanceRootSecrets.secrets.talos.dev",
		"NodeAnnotationSpecs.k8s.talos.dev",
		"NodeCordonedSpecs.k8s.talos.dev",
		"NodeLabelSpecs.k8s.talos.dev",
		"NodeTaintSpecs.k8s.talos.dev",
		"OOMActions.talos.dev",
		"OSRootSecrets.secrets.talos.dev",
		"OperatorSpecs.net.talos.dev",
		"RegistryConfigs.cri.talos.dev",
		"SiderolinkConfigs.siderolink.talos.dev",
		"SiderolinkTunnels.siderolink.talos.dev",
		"TrustdCertificates.secrets.talos.dev",
		"VolumeConfigs.block.talos.dev",
	}
}

// plainResources are the types Talos 1.13 serves without that mark.
func plainResources() []string {
	return []string{
		"APIServiceConfigs.runtime.talos.dev",
		"AcquireConfigSpecs.v1alpha1.talos.dev",
		"AcquireConfigStatuses.v1alpha1.talos.dev",
		"AddressSpecs.net.talos.dev",
		"AddressStatuses.net.talos.dev",
		"AdjtimeStatuses.v1alpha1.talos.dev",
		"AdmissionControlConfigs.kubernetes.talos.dev",
		"Affiliates.cluster.talos.dev",
		"BlockDevices.block.talos.dev",
		"BlockSymlinks.block.talos.dev",
		"BootedEntries.talos.dev",
		"BootstrapManifestsConfigs.kubernetes.talos.dev",
		"CPUStats.perf.talos.dev",
		"ConfigStatuses.kubernetes.talos.dev",
		"ControllerManagerConfigs.kubernetes.talos.dev",
		"DNSResolveCaches.net.talos.dev",
		"DNSUpstreams.net.talos.dev",
		"DevicesStatuses.runtime.talos.dev",
		"Diagnostics.runtime.talos.dev",
		"DiscoveredVolumes.block.talos.dev",
		"DiscoveryRefreshRequests.block.talos.dev",
		"DiscoveryRefreshStatuses.block.talos.dev",
		"Disks.block.talos.dev",
		"Endpoints.kubernetes.talos.dev",
		"Environments.runtime.talos.dev",
		"EtcFileStatuses.files.talos.dev",
		"EtcdConfigs.etcd.talos.dev",
		"EtcdMembers.etcd.talos.dev",
		"EtcdSpecs.etcd.talos.dev",
		"EthernetSpecs.net.talos.dev",
		"EthernetStatuses.net.talos.dev",
		"EventSinkConfigs.runtime.talos.dev",
		"ExtensionServiceConfigStatuses.runtime.talos.dev",
		"ExtensionStatuses.runtime.talos.dev",
		"ExtraManifestsConfigs.kubernetes.talos.dev",
		"HardwareAddresses.net.talos.dev",
		"HostDNSConfigs.net.talos.dev",
		"HostnameSpecs.net.talos.dev",
		"HostnameStatuses.net.talos.dev",
		"Identities.cluster.talos.dev",
		"ImageCacheConfigs.cri.talos.dev",
		"ImageVerificationRules.security.talos.dev",
		"Infos.cluster.talos.dev",
		"KernelCmdlines.runtime.talos.dev",
		"KernelModuleSpecs.runtime.talos.dev",
		"KernelParamDefaultSpecs.runtime.talos.dev",
		"KernelParamSpecs.runtime.talos.dev",
		"KernelParamStatuses.runtime.talos.dev",
		"KmsgLogConfigs.runtime.talos.dev",
		"KubePrismConfigs.kubernetes.talos.dev",
		"KubePrismEndpoints.kubernetes.talos.dev",
		"KubePrismStatuses.kubernetes.talos.dev",
		"KubeSpanEndpoints.kubespan.talos.dev",
		"KubeSpanPeerSpecs.kubespan.talos.dev",
		"KubeSpanPeerStatuses.kubespan.talos.dev",
		"KubeletKubeconfigs.kubernetes.talos.dev",
		"KubeletLifecycles.kubernetes.talos.dev",
		"KubernetesAccessConfigs.cluster.talos.dev",
		"LinkAliasSpecs.net.talos.dev",
		"LinkRefreshes.net.talos.dev",
		"LinkStatuses.net.talos.dev",
		"LoadedKernelModules.runtime.talos.dev",
		"MachineResetSignals.runtime.talos.dev",
		"MachineStatuses.runtime.talos.dev",
		"MachineTypes.config.talos.dev",
		"MaintenanceServiceConfigs.runtime.talos.dev",
		"MaintenanceServiceRequests.runtime.talos.dev",
		"ManifestStatuses.kubernetes.talos.dev",
		"Manifests.kubernetes.talos.dev",
		"Members.cluster.talos.dev",
		"MemoryModules.hardware.talos.dev",
		"MemoryStats.perf.talos.dev",
		"MetaKeys.runtime.talos.dev",
		"MetaLoads.runtime.talos.dev",
		"MountRequests.block.talos.dev",
		"MountStatuses.block.talos.dev",
		"MountStatuses.runtime.talos.dev",
		"Namespaces.meta.cosi.dev",
		"NetworkStatuses.net.talos.dev",
		"NfTablesChains.net.talos.dev",
		"NodeAddressFilters.net.talos.dev",
		"NodeAddressSortAlgorithms.net.talos.dev",
		"NodeAddresses.net.talos.dev",
		"NodeIPConfigs.kubernetes.talos.dev",
		"NodeIPs.kubernetes.talos.dev",
		"NodeStatuses.kubernetes.talos.dev",
		"Nodenames.kubernetes.talos.dev",
		"PCIDevices.hardware.talos.dev",
		"PCIDriverRebindConfigs.runtime.talos.dev",
		"PCIDriverRebindStatuses.runtime.talos.dev",
		"PCRStatuses.hardware.talos.dev",
		"PKIStatuses.etcd.talos.dev",
		"PlatformConfigs.net.talos.dev",
		"PlatformMetadatas.talos.dev",
		"ProbeSpecs.net.talos.dev",
		"ProbeStatuses.net.talos.dev",
		"Processors.hardware.talos.dev",
		"ResolverSpecs.net.talos.dev",
		"ResolverStatuses.net.talos.dev",
		"ResourceDefinitions.meta.cosi.dev",
		"RouteSpecs.net.talos.dev",
		"RouteStatuses.net.talos.dev",
		"RoutingRuleSpecs.net.talos.dev",
		"RoutingRuleStatuses.net.talos.dev",
		"SBOMItems.talos.dev",
		"SchedulerConfigs.kubernetes.talos.dev",
		"SeccompProfiles.cri.talos.dev",
		"SecretStatuses.kubernetes.talos.dev",
		"SecurityStates.talos.dev",
		"ServicePIDs.runtime.talos.dev",
		"Services.v1alpha1.talos.dev",
		"SiderolinkStatuses.siderolink.talos.dev",
		"StaticPodServerStatuses.kubernetes.talos.dev",
		"StaticPodStatuses.kubernetes.talos.dev",
		"StaticPods.kubernetes.talos.dev",
		"SwapStatuses.block.talos.dev",
		"SystemDisks.block.talos.dev",
		"SystemInformations.hardware.talos.dev",
		"TUFTrustedRoots.security.talos.dev",
		"TimeServerSpecs.net.talos.dev",
		"TimeServerStatuses.net.talos.dev",
		"TimeStatuses.v1alpha1.talos.dev",
		"UniqueMachineTokens.runtime.talos.dev",
		"UserDiskConfigStatuses.block.talos.dev",
		"Versions.runtime.talos.dev",
		"VolumeLifecycles.block.talos.dev",
		"VolumeMountRequests.block.talos.dev",
		"VolumeMountStatuses.block.talos.dev",
		"VolumeStatuses.block.talos.dev",
		"WatchdogTimerConfigs.runtime.talos.dev",
		"WatchdogTimerStatuses.runtime.talos.dev",
		"ZswapStatuses.block.talos.dev",
	}
}
