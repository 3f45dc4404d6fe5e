package bronzeward.rules.windows_test

import data.bronzeward.lib.sample_test as sample
import data.bronzeward.rules.windows

turn := {
	"name": "turn of the year", "clusters": ["lab"], "from": "2026-12-20 18:00", "to": "2027-01-04 06:00", "zone": "Europe/Berlin",
	"overriders": {"people": [{"issuer": "https://idp.example", "subject": "olga"}], "groups": ["incident"]},
}

strict := object.remove(turn, ["overriders"])

weekends := {"name": "weekends", "clusters": ["lab"], "days": ["Friday"], "from": "16:00", "to": "08:00", "zone": "UTC"}

frozen := {"BW-WINDOWS-002"}

freezes := {
	"a freeze stops": {"freezes": [strict], "now": "2026-12-24T12:00:00Z", "want": frozen},
	"the second before": {"freezes": [strict], "now": "2026-12-20T16:59:59Z", "want": set()},
	"its first": {"freezes": [strict], "now": "2026-12-20T17:00:00Z", "want": frozen},
	"its last": {"freezes": [strict], "now": "2027-01-04T04:59:59Z", "want": frozen},
	"and over": {"freezes": [strict], "now": "2027-01-04T05:00:00Z", "want": set()},
	"another cluster's": {"freezes": [object.union(strict, {"clusters": ["prod"]})], "now": "2026-12-24T12:00:00Z", "want": set()},
	"every week": {"freezes": [weekends], "now": "2026-03-06T16:00:00Z", "want": frozen},
	"every week, over midnight": {"freezes": [weekends], "now": "2026-03-07T07:59:59Z", "want": frozen},
	"every week, and over": {"freezes": [weekends], "now": "2026-03-07T08:00:00Z", "want": set()},
	"who is named goes on": {"freezes": [turn], "now": "2026-12-24T12:00:00Z", "want": {"BW-WINDOWS-004"}},
	"one that names them does not lift another": {"freezes": [turn, strict], "now": "2026-12-24T12:00:00Z", "want": {"BW-WINDOWS-002", "BW-WINDOWS-004"}},
}

test_freezes[name] if {
	some name, c in freezes
	sample.codes(windows.deny) == c.want with input as sample.patched({"/now": c.now}) with data.bronzeward.freezes as c.freezes
}

christmas := {"/now": "2026-12-24T12:00:00Z"}

callers := {
	"a member of a group": {"facts": {"/caller/subject": "vera", "/caller/groups": ["operators", "incident"]}, "want": {"BW-WINDOWS-004"}},
	"another person": {"facts": {"/caller/subject": "vera"}, "want": frozen},
	"the same name of another issuer": {"facts": {"/caller/issuer": "https://other.example"}, "want": frozen},
	"automation in the group": {"facts": {"/caller/kind": "automation", "/caller/groups": ["operators", "incident"]}, "want": frozen},
	"automation of that name": {"facts": {"/caller/kind": "automation"}, "want": frozen},
	"a dry run": {"facts": {"/call/dry_run": true, "/caller/subject": "vera"}, "want": set()},
	"a read": {"facts": {"/call/class": "read", "/caller/subject": "vera"}, "want": set()},
}

test_who_goes_on[name] if {
	some name, c in callers
	sample.codes(windows.deny) == c.want with input as sample.patched(object.union(christmas, c.facts)) with data.bronzeward.freezes as [turn]
}

test_a_freeze_holds_within_a_window if {
	open_now := {"name": "all", "clusters": ["lab"], "days": windows.weekdays, "from": "00:00", "to": "24:00", "zone": "UTC"}
	sample.codes(windows.deny) == frozen with input as sample.patched(christmas) with data.bronzeward.freezes as [strict] with data.bronzeward.windows as [open_now]
}

said := {
	"once": {"freeze": turn, "now": "2026-12-24T12:00:00Z", "ends": "2027-01-04 06:00 Europe/Berlin", "who": "olga or incident"},
	"nobody": {"freeze": strict, "now": "2026-12-24T12:00:00Z", "ends": "2027-01-04 06:00 Europe/Berlin", "who": "nobody"},
	"before midnight": {"freeze": weekends, "now": "2026-03-06T23:00:00Z", "ends": "2026-03-07 08:00 UTC", "who": "nobody"},
	"after midnight": {"freeze": weekends, "now": "2026-03-07T01:00:00Z", "ends": "2026-03-07 08:00 UTC", "who": "nobody"},
	"within a day": {"freeze": object.union(weekends, {"to": "20:00"}), "now": "2026-03-06T18:00:00Z", "ends": "2026-03-06 20:00 UTC", "who": "nobody"},
}

test_the_refusal_says_until_when_and_who_may[name] if {
	some name, c in said
	some found in windows.deny with input as sample.patched({"/now": c.now, "/caller/subject": "vera"}) with data.bronzeward.freezes as [c.freeze]
	found.hint == sprintf("wait until %s; until then %s may apply it", [c.ends, c.who])
	found.message == sprintf("cluster lab is frozen by the calendar (%s) until %s", [c.freeze.name, c.ends])
}

test_the_warning_names_who_and_which_freeze if {
	some found in windows.deny with input as sample.patched(christmas) with data.bronzeward.freezes as [turn]
	found.message == "olga goes on within the freeze of cluster lab (turn of the year, until 2027-01-04 06:00 Europe/Berlin)"
}

good := {"name": "w", "clusters": ["lab"], "days": ["Monday"], "from": "09:00", "to": "17:00", "zone": "UTC"}

dated := {"name": "d", "clusters": ["lab"], "from": "2028-02-28 00:00", "to": "2028-02-29 00:00", "zone": "UTC"}

misspelt := [
	{"days": ["monday"]}, {"days": ["Mon"]}, {"days": []}, {"days": "Monday"}, {"days": ["Monday", 2]}, {"days": false}, {"days": null},
	{"from": "9:00"}, {"from": "24:00"}, {"from": 900}, {"from": "09:60"}, {"from": "2026-03-02 09:00"}, {"from": "17:00"},
	{"to": "25:00"}, {"to": "24:01"}, {"to": "5pm"}, {"to": null}, {"to": "17:00:00"},
	{"zone": ""}, {"zone": "Local"}, {"zone": null}, {"zone": 1},
	{"clusters": []}, {"clusters": "lab"}, {"clusters": null}, {"clusters": [1, "lab"]}, {"name": 7},
	{"overriders": "olga"}, {"overriders": ["olga"]}, {"overriders": {"group": ["a"]}}, {"overriders": {"groups": "a"}}, {"overriders": {"groups": [""]}},
	{"overriders": {"people": ["olga"]}}, {"overriders": {"people": [{"subject": "olga"}]}}, {"overriders": {"people": {"issuer": "i", "subject": "s"}}},
]

misdated := [
	{"from": "2027-02-29 00:00"}, {"from": "2028-02-30 00:00"}, {"from": "2028-13-01 00:00"}, {"from": "2028-02-28"}, {"from": "2028-02-28T00:00:00Z"},
	{"from": "1999-01-01 00:00"}, {"to": "2028-04-31 00:00"}, {"to": "2028-02-28 00:00"}, {"to": "2028-02-27 00:00"}, {"to": "2100-02-29 00:00"},
	{"to": "2028-06-00 00:00"}, {"days": ["monday"]},
]

entries := array.concat([object.union(good, bad) | some bad in misspelt], [object.union(dated, bad) | some bad in misdated])

wrong := {sprintf("%v", [entry]): entry | some entry in entries}

# Whatever is wrong in a window or a freeze, it is seen.
test_what_cannot_be_read_is_named[name] if {
	some name, entry in wrong
	windows.unreadable == {"windows[1]", "freezes[0]"} with input as sample.apply with data.bronzeward.windows as [good, entry] with data.bronzeward.freezes as [entry]
}

# And lets nothing through, at any hour: by day the good window is open, at night it is not.
test_what_cannot_be_read_lets_nothing_through if {
	every hour in ["2026-03-02T10:00:00Z", "2026-03-03T03:00:00Z"] {
		"BW-WINDOWS-003" in sample.codes(windows.deny) with input as sample.patched({"/now": hour}) with data.bronzeward.windows as [good, entries[0]]
		"BW-WINDOWS-003" in sample.codes(windows.deny) with input as sample.patched({"/now": hour}) with data.bronzeward.freezes as [entries[0]]
	}
}

# The controls: what the cases above begin with can be read, and a leap day is a day.
test_what_can_be_read_is if {
	every entry in [good, dated, turn, object.union(good, {"overriders": null}), object.union(good, {"overriders": {}}), object.union(dated, {"from": "2028-02-29 00:00", "to": "2400-02-29 00:00"})] {
		not "BW-WINDOWS-003" in sample.codes(windows.deny) with input as sample.apply with data.bronzeward.freezes as [entry]
	}
}

test_an_entry_of_another_cluster_stops_nobody_here if {
	count(windows.deny) == 0 with input as sample.apply with data.bronzeward.freezes as [object.union(good, {"clusters": ["prod"], "days": ["monday"]})]
}

test_the_refusal_names_the_entry if {
	some found in windows.deny with input as sample.apply with data.bronzeward.freezes as [dated, object.union(good, {"days": ["monday"]})]
	found.message == "the law's calendar cannot be read, so no apply passes: freezes[1]"
}

test_a_calendar_that_is_no_list_lets_nothing_through if {
	every calendar in [{}, "none", null, {"a": good}] {
		"BW-WINDOWS-003" in sample.codes(windows.deny) with input as sample.apply with data.bronzeward.freezes as calendar
		"BW-WINDOWS-003" in sample.codes(windows.deny) with input as sample.apply with data.bronzeward.windows as calendar
	}
}
