update control.attempts
set state = $2, read_active = $3, read_persistent = $4, reason = $5, closed_by = $6,
    closed_at = case when $2 = 'unresolved' then null else clock_timestamp() end,
    unresolved_at = case when $2 = 'unresolved' then clock_timestamp() end
where id = $1 and state = 'open' and instance = $7 and generation = $8 and epoch = $9
