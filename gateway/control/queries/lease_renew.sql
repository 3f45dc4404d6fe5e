update control.attempts
set lease_until = greatest(lease_until, clock_timestamp() + $5::interval)
where id = $1 and state = 'open' and instance = $2 and generation = $3 and epoch = $4
