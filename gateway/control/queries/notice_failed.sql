update control.notices
set error = $3, next_at = clock_timestamp() + $4::interval
where id = $1 and state = 'waiting' and tries = $2
