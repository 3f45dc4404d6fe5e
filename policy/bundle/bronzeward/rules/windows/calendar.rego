package bronzeward.rules.windows

# Entries of both calendars are of two kinds. One comes every week: days, and from and to
# as times of day. The other comes once: from and to are dates with a time. Both are read
# off the wall clock of their zone: an hour that the clocks skip never is, and one that
# comes twice counts twice.

weekdays := ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]

# The day before each. Counting hours back from now would miss it where the clocks changed.
yesterday := {day: weekdays[(i + 6) % 7] | some i, day in weekdays}

# METADATA
# scope: document
# title: covers
# description: The database's time lies within the entry. One over midnight belongs to the day it begins on.
covers(entry) if {
	weekly(entry)
	entry.from <= entry.to
	today(entry.zone) in entry.days
	clock(entry.zone) >= entry.from
	clock(entry.zone) < entry.to
}

covers(entry) if {
	weekly(entry)
	entry.from > entry.to
	today(entry.zone) in entry.days
	clock(entry.zone) >= entry.from
}

covers(entry) if {
	weekly(entry)
	entry.from > entry.to
	yesterday[today(entry.zone)] in entry.days
	clock(entry.zone) < entry.to
}

covers(entry) if {
	not weekly(entry)
	stamp(entry.zone) >= entry.from
	stamp(entry.zone) < entry.to
}

weekly(entry) if is_array(entry.days)

now := time.parse_rfc3339_ns(input.now)

today(zone) := time.weekday([now, zone])

clock(zone) := sprintf("%02d:%02d", [hour, minute]) if [hour, minute, _] := time.clock([now, zone])

date(zone) := sprintf("%04d-%02d-%02d", time.date([now, zone]))

stamp(zone) := concat(" ", [date(zone), clock(zone)])

# METADATA
# scope: document
# title: opens
# description: When the first of the cluster's windows opens, by the wall clock of its zone.
default opens := "none that is set"

opens := min(openings)

openings contains text if {
	some window in data.bronzeward.windows
	input.machine.cluster in window.clusters
	readable(window)
	some begins in beginnings(window)
	begins > stamp(window.zone)
	text := concat(" ", [begins, window.zone])
}

beginnings(window) := {window.from} if not weekly(window)

beginnings(window) := {concat(" ", [ahead(window.zone, n), window.from]) |
	some n in numbers.range(0, 7)
	weekday_ahead(window.zone, n) in window.days
} if {
	weekly(window)
}

# METADATA
# scope: document
# title: ends
# description: When an entry that covers now is over, by the wall clock of its zone.
ends(entry) := concat(" ", [entry.to, entry.zone]) if not weekly(entry)

ends(entry) := concat(" ", [ahead(entry.zone, 0), entry.to, entry.zone]) if {
	weekly(entry)
	clock(entry.zone) < entry.to
}

ends(entry) := concat(" ", [ahead(entry.zone, 1), entry.to, entry.zone]) if {
	weekly(entry)
	clock(entry.zone) >= entry.to
}

# Days are counted from noon, in no zone, where every one has twenty-four hours.
noon(zone) := time.parse_rfc3339_ns(concat("", [date(zone), "T12:00:00Z"]))

ahead(zone, days) := sprintf("%04d-%02d-%02d", time.date(time.add_date(noon(zone), 0, 0, days)))

weekday_ahead(zone, days) := time.weekday(time.add_date(noon(zone), 0, 0, days))
