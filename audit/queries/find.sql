select id, recorded_at, leaf from audit.entries where id = any ($1)
union all
select id, recorded_at, leaf from audit.outcomes where entry_id = any ($2) and id = any ($1)
