package bronzeward.rules.windows_test

import data.bronzeward.lib.sample_test as sample
import data.bronzeward.rules.windows

# The second of March 2026 is a Monday.
office := {"name": "office", "clusters": ["lab"], "days": ["Monday"], "from": "09:00", "to": "17:00", "zone": "UTC"}

night := {"name": "night", "clusters": ["lab"], "days": ["Monday"], "from": "22:00", "to": "04:00", "zone": "UTC"}

berlin := {"name": "berlin", "clusters": ["lab"], "days": ["Monday"], "from": "11:00", "to": "12:00", "zone": "Europe/Berlin"}

cases := {
	"no window is no bound": {"windows": [], "now": "2026-03-02T10:00:00Z", "want": set()},
	"within the window": {"windows": [office], "now": "2026-03-02T10:00:00Z", "want": set()},
	"at its end": {"windows": [office], "now": "2026-03-02T17:00:00Z", "want": {"BW-WINDOWS-001"}},
	"on another day": {"windows": [office], "now": "2026-03-03T10:00:00Z", "want": {"BW-WINDOWS-001"}},
	"before midnight": {"windows": [night], "now": "2026-03-02T23:00:00Z", "want": set()},
	"after midnight": {"windows": [night], "now": "2026-03-03T03:59:00Z", "want": set()},
	"the night before": {"windows": [night], "now": "2026-03-02T03:00:00Z", "want": {"BW-WINDOWS-001"}},
	"any one is enough": {"windows": [night, office], "now": "2026-03-02T10:00:00Z", "want": set()},
	"in its own zone": {"windows": [berlin], "now": "2026-03-02T10:30:00Z", "want": set()},
	"another cluster's": {"windows": [object.union(office, {"clusters": ["prod"]})], "now": "2026-03-03T10:00:00Z", "want": set()},
}

test_windows[name] if {
	some name, c in cases
	sample.codes(windows.deny) == c.want with input as sample.patched({"/now": c.now}) with data.bronzeward.windows as c.windows
}

test_a_dry_run_needs_no_window if {
	count(windows.deny) == 0 with input as sample.patched({"/now": "2026-03-03T10:00:00Z", "/call/dry_run": true}) with data.bronzeward.windows as [office]
}
