package bronzeward.rules.windows

# METADATA
# scope: document
# title: unreadable
# description: |
#   The entries that may concern the machine's cluster and are not of the form they must
#   have, by their place in the data; the calendar itself where it is no list.
unreadable contains "windows" if not listed_windows

unreadable contains "freezes" if not listed_freezes

unreadable contains sprintf("windows[%v]", [i]) if {
	some i, window in data.bronzeward.windows
	not elsewhere(window)
	not readable(window)
}

unreadable contains sprintf("freezes[%v]", [i]) if {
	some i, freeze in data.bronzeward.freezes
	not elsewhere(freeze)
	not readable(freeze)
}

# Helpers, because an undefined argument would make the negated call undefined too.
listed_windows if is_array(data.bronzeward.windows)

listed_freezes if is_array(data.bronzeward.freezes)

# METADATA
# title: elsewhere
# description: The entry names clusters, and the machine's is none of them.
elsewhere(entry) if {
	texts(entry.clusters)
	not input.machine.cluster in entry.clusters
}

readable(entry) if {
	is_string(entry.name)
	texts(entry.clusters)
	zoned(entry.zone)
	timed(entry)
	overridable(entry)
}

# METADATA
# title: zoned
# description: |
#   A zone there is. Of one there is not the built-in fails, and with it the decision, which
#   is a denial; "Local" would be the zone of whatever computer judges.
zoned(zone) if {
	is_string(zone)
	not zone in {"", "Local"}
	[hour, _, _] := time.clock([0, zone])
	hour >= 0
}

timed(entry) if {
	texts(entry.days)
	every day in entry.days {
		day in weekdays
	}
	time_of_day(entry.from)
	entry.from != "24:00"
	time_of_day(entry.to)
	entry.from != entry.to
}

timed(entry) if {
	object.get(entry, "days", null) == null
	moment(entry.from)
	moment(entry.to)
	entry.from < entry.to
}

time_of_day(text) if {
	is_string(text)
	regex.match(`^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$`, text)
}

# METADATA
# title: moment
# description: A day that there is, and a time of it.
moment(text) if {
	is_string(text)
	regex.match(`^2[0-9]{3}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01]) ([01][0-9]|2[0-3]):[0-5][0-9]$`, text)
	substring(text, 8, 2) <= last_day(substring(text, 0, 4), substring(text, 5, 2))
}

last_day(_, month) := "31" if month in {"01", "03", "05", "07", "08", "10", "12"}

last_day(_, month) := "30" if month in {"04", "06", "09", "11"}

last_day(year, "02") := "29" if leap(to_number(year))

last_day(year, "02") := "28" if not leap(to_number(year))

leap(year) if {
	year % 4 == 0
	year % 100 != 0
}

leap(year) if year % 400 == 0

# METADATA
# scope: document
# title: overridable
# description: Who may go on is left out, or lists of people and of groups.
overridable(entry) if object.get(entry, "overriders", null) == null

overridable(entry) if {
	is_object(entry.overriders)
	object.keys(entry.overriders) - {"groups", "people"} == set()
	groups := object.get(entry.overriders, "groups", [])
	is_array(groups)
	every group in groups {
		is_string(group)
		group != ""
	}
	people := object.get(entry.overriders, "people", [])
	is_array(people)
	every person in people {
		is_object(person)
		object.keys(person) == {"issuer", "subject"}
	}
}

texts(list) if {
	is_array(list)
	count(list) > 0
	every text in list {
		is_string(text)
	}
}
