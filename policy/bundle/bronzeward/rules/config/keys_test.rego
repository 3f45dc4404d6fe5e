package bronzeward.rules.config_test

import data.bronzeward.lib.sample_test as sample
import data.bronzeward.rules.config

entry(field, key, value) := changing([{
	"document": "v1alpha1", "path": sprintf(`%s[%s]`, [field, json.marshal(key)]), "field": field,
	"before": null, "after": value, "reboot": false,
}])

sysctl(key, value) := entry("machine.sysctls", key, value)

sysfs(key, value) := entry("machine.sysfs", key, value)

kubelet(key, value) := entry("machine.kubelet.extraArgs", key, value)

label(key) := entry("machine.nodeLabels", key, "x")

annotation(key) := entry("machine.nodeAnnotations", key, "fp:1")

taint(value) := entry("machine.nodeTaints", "example.com/t", value)

passing := {
	"swappiness": sysctl("vm.swappiness", "10"),
	"the ends of a range": sysctl("vm.swappiness", "200"),
	"a parameter goes away": sysctl("vm.swappiness", null),
	"three numbers": sysctl("net.ipv4.tcp_rmem", "4096\t87380  6291456"),
	"a word": sysctl("net.ipv4.tcp_congestion_control", "bbr"),
	"large pages": sysfs("kernel.mm.transparent_hugepage.enabled", "madvise"),
	"a device's queue": sysfs("block.nvme0n1.queue.scheduler", "none"),
	"a little verbosity": kubelet("v", "2"),
	"more pods": kubelet("max-pods", "250"),
	"a flag goes away": kubelet("max-pods", null),
	"a label without a prefix": label("zone"),
	"a label of one's own": label("example.com/zone"),
	"a label whose name is hidden": label("example.com/fp:0123456789abcdef0123"),
	"a zone": label("topology.kubernetes.io/zone"),
	"a role of workers": label("node-role.kubernetes.io/worker"),
	"a domain that only ends alike": label("notkubernetes.io/x"),
	"an annotation of one's own": annotation("example.com/owner"),
	"a label of a domain that only looks like a listed one": label("kubernetes-io/x"),
	"a taint": taint("v:NoSchedule"),
	"a taint without a value": taint("PreferNoSchedule"),
	"a taint goes away": taint(null),
}

test_what_is_harmless_passes[name] if {
	some name, facts in passing
	count(config.deny) == 0 with input as facts
}

kernel := {
	"kernel.panic": "1", "kernel.pid_max": "301", "kernel.threads-max": "20", "fs.file-max": "1",
	"net.ipv4.tcp_mem": "1 1 1", "net.netfilter.nf_conntrack_max": "1", "net.ipv4.neigh.default.gc_thresh3": "0",
	"net.ipv4.neigh.eth0.gc_thresh3": "0", "net.core.somaxconn": "0", "net.ipv4.ip_forward": "0", "net.ipv4.conf.all.forwarding": "0",
	"net.ipv6.conf.all.forwarding": "0", "user.max_pid_namespaces": "0", "user.max_net_namespaces": "0", "vm.memory_failure_recovery": "0",
	"net.core.bpf_jit_harden": "0", "vm.mmap_min_addr": "0", "vm.unprivileged_userfaultfd": "1", "kernel.perf_event_paranoid": "-1",
	"net.ipv4.conf.all.accept_redirects": "1", "net.ipv6.conf.all.accept_ra": "2", "net.ipv6.conf.eth0.disable_ipv6": "1",
	"vm.overcommit_memory": "2", "vm.panic_on_oom": "1", "vm/swappiness": "10", "vm/../kernel/core_pattern": "1",
	"kernel.core_pattern": "fp:1", "vm.swappiness": "fp:1", "vm.vfs_cache_pressure": "0", "vm.dirty_ratio": "100",
	"vm.max_map_count": "65531 2", "net.ipv4.tcp_rmem": "4096 87380", "net.ipv4.tcp_wmem": "0 0 0",
	"fs.nr_open": "01048576", "fs.inotify.max_user_watches": "", "net.core.default_qdisc": "tbf", "vm.swappiness.": "10",
	"net.core.rmem_max": "99999999999999999999", "net.core.wmem_max": "1e6", "VM.swappiness": "10", "": {"a": "b"},
}

test_kernel_parameters[key] if {
	some key, value in kernel
	sample.codes(config.deny) == {"BW-CONFIG-040"} with input as sysctl(key, value)
}

files := {
	"block.sda.backing_dev": "1", "block.zram0.backing_dev": "fp:1", "block.sda.queue.io_timeout": "1", "block.sda.device.timeout": "1",
	"block.sda.device.delete": "1", "block.*.queue.scheduler": "none", "block.sda/../x.queue.scheduler": "none",
	"module.firmware_class.parameters.path": "fp:1", "module.x.parameters.y": "1", "module.kernel.parameters.panic": "1",
	"block.sda.x.queue.scheduler": "none", "block.sda.queue.scheduler": "fp:1", "devices.system.cpu.cpu1.online": "0",
}

test_kernel_files[key] if {
	some key, value in files
	sample.codes(config.deny) == {"BW-CONFIG-040"} with input as sysfs(key, value)
}

flags := {
	"anonymous-auth": "true", "v": "10", "cpu-manager-policy": "static", "topology-manager-policy": "none", "max-pods": "0",
	"container-log-max-size": "1", "image-gc-high-threshold": "80", "image-gc-low-threshold": "90", "event-qps": "fp:1",
}

test_kubelet_flags[key] if {
	some key, value in flags
	sample.codes(config.deny) == {"BW-CONFIG-041"} with input as kubelet(key, value)
}

whole := {"machine.sysctls": "BW-CONFIG-040", "machine.kubelet.extraArgs": "BW-CONFIG-041", "machine.nodeLabels": "BW-CONFIG-042", "machine.nodeAnnotations": "BW-CONFIG-043"}

test_a_map_that_changes_as_a_whole_is_refused[field] if {
	some field, code in whole
	sample.codes(config.deny) == {code} with input as changing([sample.change("v1alpha1", field, field)])
}

test_an_empty_map_of_parameters_passes if {
	item := object.union(sample.change("v1alpha1", "machine.sysctls", "machine.sysctls"), {"after": {}})
	count(config.deny) == 0 with input as changing([item])
}

labels := [
	"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master", "node-restriction.kubernetes.io/x",
	"node-restriction.kubernetes.io/fp:0123456789abcdef0123", "x.node-restriction.kubernetes.io/y", "Node-Restriction.Kubernetes.IO/x",
	"node.kubernetes.io/exclude-from-external-load-balancers", "node.kubernetes.io/instance-type", "kubernetes.io/hostname",
	"cluster.x-k8s.io/cluster-name", "fp:0123456789abcdef0123/x",
	"fp:0123456789abcdef0123/fp:0123456789abcdef0123", "topology.kubernetes.io/fp:0123456789abcdef0123",
]

test_labels[key] if {
	some key in labels
	sample.codes(config.deny) == {"BW-CONFIG-042"} with input as label(key)
}

# The control: without the domains of the data the label is given.
test_the_domains_are_what_refuses_a_label if {
	free := {"domains": [], "begins": [], "allow": []}
	count(config.deny) == 0 with input as label("node-restriction.kubernetes.io/x") with data.bronzeward.config.labels as free
}

annotations := [
	"flannel.alpha.coreos.com/public-ip", "projectcalico.org/IPv4Address", "io.cilium.network.ipv4-pod-cidr", "network.cilium.io/ipv4-pod-cidr",
	"csi.volume.kubernetes.io/nodeid", "node.alpha.kubernetes.io/ttl", "k8s.io/x", "kubeadm.alpha.kubernetes.io/cri-socket",
	"networking.talos.dev/api-server-port", "k8s.ovn.org/l3-gateway-config", "fp:0123456789abcdef0123/x",
]

test_annotations[key] if {
	some key in annotations
	sample.codes(config.deny) == {"BW-CONFIG-043"} with input as annotation(key)
}

test_taints[value] if {
	some value in ["v:NoExecute", "NoExecute", "fp:1", "", "v:noexecute", "NoSchedule:x", ":"]
	sample.codes(config.deny) == {"BW-CONFIG-044"} with input as taint(value)
}

test_a_taint_that_changes_is_judged_by_what_it_becomes if {
	item := {"document": "v1alpha1", "path": "machine.nodeTaints.a", "field": "machine.nodeTaints", "before": "x:NoSchedule", "after": "x:NoExecute", "reboot": false}
	sample.codes(config.deny) == {"BW-CONFIG-044"} with input as changing([item])
}

test_no_execute_passes_once_data_names_it if {
	count(config.deny) == 0 with input as taint("v:NoExecute") with data.bronzeward.config.taints.effects as ["NoExecute"]
}

test_the_refusal_names_the_key_as_it_is if {
	some found in config.deny with input as label("node-role.kubernetes.io/master")
	startswith(found.message, "machine.nodeLabels node-role.kubernetes.io/master says")
}

test_the_refusal_counts_the_keys_it_does_not_name if {
	items := [sample.change("v1alpha1", sprintf(`machine.sysctls["a.%d"]`, [i]), "machine.sysctls") | some i in numbers.range(1, 5)]
	some found in config.deny with input as changing(items)
	contains(found.message, "a.1, a.2, a.3 and 2 more is not")
}

test_without_its_table_nothing_passes if {
	every facts in [sysctl("vm.swappiness", "10"), sysfs("block.sda.queue.scheduler", "none"), kubelet("v", "2"), label("a"), annotation("a"), taint("NoSchedule")] {
		count(config.deny) == 1 with input as facts with data.bronzeward.config as without
	}
}

without := object.remove(data.bronzeward.config, ["sysctls", "sysfs", "kubelet_args", "labels", "annotations", "taints"])
