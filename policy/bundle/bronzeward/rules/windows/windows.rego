# METADATA
# title: windows
# description: When a cluster takes applies. Data says; none stands there as shipped.
package bronzeward.rules.windows

import data.bronzeward.lib.change
import data.bronzeward.lib.finding

# METADATA
# title: outside every window
# description: Some window names the cluster, and none of them is open now.
# custom:
#   code: BW-WINDOWS-001
#   hint: talosctl -n {machine} apply-config --mode=no-reboot --dry-run -f FILE
deny contains found if {
	input.call.class == "apply"
	change.applying
	count(named) > 0
	not open
	found := finding.because(rego.metadata.rule(), sprintf("cluster %s takes applies only in its windows: %s", [input.machine.cluster, concat(", ", sort(named))]))
}

# METADATA
# title: named
# description: The windows that name the machine's cluster.
named contains window.name if {
	some window in data.bronzeward.windows
	input.machine.cluster in window.clusters
}

# METADATA
# title: open
# description: One of the cluster's windows is open at the database's time.
open if {
	some window in data.bronzeward.windows
	input.machine.cluster in window.clusters
	contains_now(window)
}

contains_now(window) if {
	window.from <= window.to
	day(window, 0) in window.days
	clock(window) >= window.from
	clock(window) < window.to
}

# A window over midnight belongs to the day it begins on.
contains_now(window) if {
	window.from > window.to
	day(window, 0) in window.days
	clock(window) >= window.from
}

contains_now(window) if {
	window.from > window.to
	day(window, -1) in window.days
	clock(window) < window.to
}

clock(window) := sprintf("%02d:%02d", [hour, minute]) if {
	[hour, minute, _] := time.clock([time.parse_rfc3339_ns(input.now), window.zone])
}

day(window, days) := time.weekday([time.add_date(time.parse_rfc3339_ns(input.now), 0, 0, days), window.zone])
