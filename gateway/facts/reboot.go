package facts

import "strings"

// immediate are the v1alpha1 fields Talos 1.13 takes without a reboot, in no-reboot
// and try mode. Everything else of that document needs one, and a node refuses it; the
// node checks no other document. A test reads the list from Talos's source.
func immediate() []string {
	return []string{
		"cluster",
		"debug",
		"machine.acceptedCAs",
		"machine.ca",
		"machine.certSANs",
		"machine.controlPlane",
		"machine.features.hostDNS",
		"machine.features.imageCache",
		"machine.features.kubePrism",
		"machine.features.kubernetesTalosAPIAccess",
		"machine.features.nodeAddressSortAlgorithm",
		"machine.install",
		"machine.kernel",
		"machine.kubelet",
		"machine.logging",
		"machine.network",
		"machine.nodeAnnotations",
		"machine.nodeLabels",
		"machine.nodeTaints",
		"machine.pods",
		"machine.registries",
		"machine.seccompProfiles",
		"machine.sysctls",
		"machine.sysfs",
		"machine.time",
	}
}

var immediateFields = immediate() // never written

// needsReboot says whether a change of the field is one a node refuses in no-reboot mode.
func needsReboot(field string) bool {
	for _, free := range immediateFields {
		if field == free || strings.HasPrefix(field, free+".") {
			return false
		}
	}
	return true
}

// wholeMatters is true for the blocks the node's check looks into: when one of them
// appears or goes, it compares the whole and refuses.
func wholeMatters(kind, field string) bool {
	return kind == "v1alpha1" && (field == "machine" || field == "machine.features")
}
