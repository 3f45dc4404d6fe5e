package facts

// visibility says how a text of the configuration may be shown.
type visibility int

const (
	masked  visibility = iota // a fingerprint
	shown                     // as it is, unless it has the look of key material
	origin                    // a URL's scheme, host and port; the rest is a fingerprint
	numeric                   // as it is when it is integers or a fixed word, else a fingerprint
)

// visible is the allow-list, "Kind:field"; it is never written after it is made.
var visible = func() map[string]visibility {
	out := make(map[string]visibility)
	for _, field := range shownFields() {
		out[field] = shown
	}
	for _, field := range originFields() {
		out[field] = origin
	}
	for _, field := range numericFields() {
		out[field] = numeric
	}
	return out
}()

// visibilityOf is the visibility of a text field of a document kind. A field that is
// on no list is masked.
func visibilityOf(kind, field string) visibility {
	if v, ok := visible[kind+":"+field]; ok {
		return v
	}
	if kind != "v1alpha1" && (field == "apiVersion" || field == "kind" || field == "name") {
		return shown
	}
	return masked
}

// originFields hold URLs and host:port texts, whose other parts carry credentials.
func originFields() []string {
	return []string{
		"EventSinkConfig:endpoint",
		"KmsgLogConfig:url",
		"RawVolumeConfig:encryption.keys.kms.endpoint",
		"RegistryMirrorConfig:endpoints.url",
		"SideroLinkConfig:apiUrl",
		"SwapVolumeConfig:encryption.keys.kms.endpoint",
		"TCPProbeConfig:endpoint",
		"UserVolumeConfig:encryption.keys.kms.endpoint",
		"VolumeConfig:encryption.keys.kms.endpoint",
		"v1alpha1:cluster.controlPlane.endpoint",
		"v1alpha1:cluster.discovery.registries.service.endpoint",
		"v1alpha1:cluster.externalCloudProvider.manifests",
		"v1alpha1:cluster.extraManifests",
		"v1alpha1:cluster.network.cni.urls",
		"v1alpha1:machine.logging.destinations.endpoint",
		"v1alpha1:machine.registries.mirrors.endpoints",
		"v1alpha1:machine.systemDiskEncryption.ephemeral.keys.kms.endpoint",
		"v1alpha1:machine.systemDiskEncryption.state.keys.kms.endpoint",
	}
}

// numericFields hold settings of the kernel and the kubelet. Policies need their numbers;
// some settings are keys.
func numericFields() []string {
	return []string{
		"v1alpha1:machine.kubelet.extraArgs",
		"v1alpha1:machine.sysctls",
		"v1alpha1:machine.sysfs",
	}
}

// settingWords are the words such a setting may be shown by: names of schedulers and
// governors that the kernel knows, and nothing a person chooses.
func settingWords() []string {
	return []string{
		"always", "bbr", "bfq", "conservative", "cubic", "defer", "defer+madvise", "false", "fq", "fq_codel", "kyber", "madvise",
		"mq-deadline", "never", "none", "ondemand", "performance", "pfifo_fast", "powersave", "reno", "schedutil", "true",
	}
}
