update control.notices
set state = 'dead', ended_at = clock_timestamp(), error = $3
where id = $1 and state = 'waiting' and tries = $2
