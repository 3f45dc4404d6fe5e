package bronzeward.rules.windows_test

import data.bronzeward.lib.sample_test as sample
import data.bronzeward.rules.windows

# The second of March 2026 is a Monday.
office := {"name": "office", "clusters": ["lab"], "days": ["Monday"], "from": "09:00", "to": "17:00", "zone": "UTC"}

night := {"name": "night", "clusters": ["lab"], "days": ["Monday"], "from": "22:00", "to": "04:00", "zone": "UTC"}

evening := {"name": "evening", "clusters": ["lab"], "days": ["Monday"], "from": "20:00", "to": "24:00", "zone": "UTC"}

berlin := {"name": "berlin", "clusters": ["lab"], "days": ["Monday"], "from": "11:00", "to": "12:00", "zone": "Europe/Berlin"}

move := {"name": "move", "clusters": ["lab"], "from": "2026-03-01 22:00", "to": "2026-03-02 04:00", "zone": "Europe/Berlin"}

outside := {"BW-WINDOWS-001"}

cases := {
	"no window is no bound": {"windows": [], "now": "2026-03-02T10:00:00Z", "want": set()},
	"within the window": {"windows": [office], "now": "2026-03-02T10:00:00Z", "want": set()},
	"at its first second": {"windows": [office], "now": "2026-03-02T09:00:00Z", "want": set()},
	"a second before": {"windows": [office], "now": "2026-03-02T08:59:59Z", "want": outside},
	"at its end": {"windows": [office], "now": "2026-03-02T17:00:00Z", "want": outside},
	"on another day": {"windows": [office], "now": "2026-03-03T10:00:00Z", "want": outside},
	"before midnight": {"windows": [night], "now": "2026-03-02T23:59:59Z", "want": set()},
	"at midnight": {"windows": [night], "now": "2026-03-03T00:00:00Z", "want": set()},
	"after midnight": {"windows": [night], "now": "2026-03-03T03:59:59Z", "want": set()},
	"at its end after midnight": {"windows": [night], "now": "2026-03-03T04:00:00Z", "want": outside},
	"the night before": {"windows": [night], "now": "2026-03-02T03:00:00Z", "want": outside},
	"the second before twenty-four o'clock": {"windows": [evening], "now": "2026-03-02T23:59:59Z", "want": set()},
	"twenty-four o'clock is the next day": {"windows": [evening], "now": "2026-03-03T00:00:00Z", "want": outside},
	"any one is enough": {"windows": [night, office], "now": "2026-03-02T10:00:00Z", "want": set()},
	"in its own zone": {"windows": [berlin], "now": "2026-03-02T10:30:00Z", "want": set()},
	"another cluster's": {"windows": [object.union(office, {"clusters": ["prod"]})], "now": "2026-03-03T10:00:00Z", "want": set()},
	"once": {"windows": [move], "now": "2026-03-01T21:00:00Z", "want": set()},
	"once, and not a minute early": {"windows": [move], "now": "2026-03-01T20:59:59Z", "want": outside},
	"once, and over": {"windows": [move], "now": "2026-03-02T03:00:00Z", "want": outside},
	"once, not a week later": {"windows": [move], "now": "2026-03-08T22:00:00Z", "want": outside},
}

test_windows[name] if {
	some name, c in cases
	sample.codes(windows.deny) == c.want with input as sample.patched({"/now": c.now}) with data.bronzeward.windows as c.windows
}

test_a_dry_run_needs_no_window if {
	count(windows.deny) == 0 with input as sample.patched({"/now": "2026-03-03T10:00:00Z", "/call/dry_run": true}) with data.bronzeward.windows as [office]
}

# Berlin's clocks go from two to three on the 29th of March 2026 and from three back to two
# on the 25th of October; both are Sundays.
sunday := {"name": "sunday", "clusters": ["lab"], "days": ["Sunday"], "from": "22:00", "to": "04:00", "zone": "Europe/Berlin"}

saturday := object.union(sunday, {"name": "saturday", "days": ["Saturday"]})

skipped := {"name": "skipped", "clusters": ["lab"], "days": ["Sunday"], "from": "02:00", "to": "03:00", "zone": "Europe/Berlin"}

changeovers := {
	"saturday's night before the hour that is skipped": {"windows": [saturday], "now": "2026-03-29T00:59:59Z", "want": set()},
	"and after it": {"windows": [saturday], "now": "2026-03-29T01:00:00Z", "want": set()},
	"it ends by the new clock": {"windows": [saturday], "now": "2026-03-29T02:00:00Z", "want": outside},
	"sunday's night begins by the new clock": {"windows": [sunday], "now": "2026-03-29T20:00:00Z", "want": set()},
	"and not by the old one's end": {"windows": [sunday], "now": "2026-03-29T19:59:59Z", "want": outside},
	"sunday's night after midnight, a day of twenty-three hours later": {"windows": [sunday], "now": "2026-03-29T22:30:00Z", "want": set()},
	"which is not saturday's": {"windows": [saturday], "now": "2026-03-29T22:30:00Z", "want": outside},
	"the hour that is skipped never is, before": {"windows": [skipped], "now": "2026-03-29T00:59:59Z", "want": outside},
	"and after": {"windows": [skipped], "now": "2026-03-29T01:00:00Z", "want": outside},
	"the hour that comes twice, first": {"windows": [skipped], "now": "2026-10-25T00:30:00Z", "want": set()},
	"and again": {"windows": [skipped], "now": "2026-10-25T01:30:00Z", "want": set()},
	"and no third time": {"windows": [skipped], "now": "2026-10-25T02:00:00Z", "want": outside},
	"sunday's night after midnight, a day of twenty-five hours later": {"windows": [sunday], "now": "2026-10-25T23:30:00Z", "want": set()},
	"which is not saturday's either": {"windows": [saturday], "now": "2026-10-25T23:30:00Z", "want": outside},
	"saturday's night through the hour that comes twice": {"windows": [saturday], "now": "2026-10-25T01:30:00Z", "want": set()},
	"it ends by the winter's clock": {"windows": [saturday], "now": "2026-10-25T03:00:00Z", "want": outside},
}

test_changeovers[name] if {
	some name, c in changeovers
	sample.codes(windows.deny) == c.want with input as sample.patched({"/now": c.now}) with data.bronzeward.windows as c.windows
}

# 2028 is a leap year; its 29th of February is a Tuesday.
leap_day := {"name": "leap", "clusters": ["lab"], "from": "2028-02-29 00:00", "to": "2028-03-01 00:00", "zone": "UTC"}

leap_night := {"name": "leap night", "clusters": ["lab"], "days": ["Tuesday"], "from": "22:00", "to": "04:00", "zone": "UTC"}

leaps := {
	"the second before": {"windows": [leap_day], "now": "2028-02-28T23:59:59Z", "want": outside},
	"its first": {"windows": [leap_day], "now": "2028-02-29T00:00:00Z", "want": set()},
	"its last": {"windows": [leap_day], "now": "2028-02-29T23:59:59Z", "want": set()},
	"the day after": {"windows": [leap_day], "now": "2028-03-01T00:00:00Z", "want": outside},
	"its night": {"windows": [leap_night], "now": "2028-03-01T03:00:00Z", "want": set()},
	"the night before it": {"windows": [leap_night], "now": "2028-02-29T03:00:00Z", "want": outside},
}

test_leap_days[name] if {
	some name, c in leaps
	sample.codes(windows.deny) == c.want with input as sample.patched({"/now": c.now}) with data.bronzeward.windows as c.windows
}

hints := {
	"later today": {"windows": [night], "now": "2026-03-02T10:00:00Z", "opens": "2026-03-02 22:00 UTC"},
	"in a week": {"windows": [office], "now": "2026-03-02T17:00:00Z", "opens": "2026-03-09 09:00 UTC"},
	"the first of several": {"windows": [office, night], "now": "2026-03-02T18:00:00Z", "opens": "2026-03-02 22:00 UTC"},
	"on a leap day": {"windows": [leap_night], "now": "2028-02-28T23:00:00Z", "opens": "2028-02-29 22:00 UTC"},
	"on the day the clocks change": {"windows": [sunday], "now": "2026-03-28T23:30:00Z", "opens": "2026-03-29 22:00 Europe/Berlin"},
	"by its own zone's day": {"windows": [berlin], "now": "2026-03-01T23:30:00Z", "opens": "2026-03-02 11:00 Europe/Berlin"},
	"once": {"windows": [move], "now": "2026-03-01T10:00:00Z", "opens": "2026-03-01 22:00 Europe/Berlin"},
	"never again": {"windows": [move], "now": "2026-03-03T10:00:00Z", "opens": "none that is set"},
}

test_the_hint_says_when_it_opens[name] if {
	some name, c in hints
	some found in windows.deny with input as sample.patched({"/now": c.now}) with data.bronzeward.windows as c.windows
	found.hint == sprintf("wait for %s; a dry run passes at any time: talosctl -n worker-1 apply-config --mode=no-reboot --dry-run -f FILE", [c.opens])
	contains(found.message, c.opens)
}
