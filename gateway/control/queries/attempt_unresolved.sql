update control.attempts
set state = $2, read_active = $3, read_persistent = $4, reason = $5, closed_by = $6, unresolved_at = clock_timestamp()
where id = $1 and state = 'open' and lease_until < clock_timestamp()
