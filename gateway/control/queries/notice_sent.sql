update control.notices
set state = 'sent', ended_at = clock_timestamp(), error = ''
where id = $1 and state = 'waiting'
