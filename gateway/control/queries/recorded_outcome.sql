select exists (select from audit.outcomes where entry_id = $1 and id = $2)
