update control.machines
set applied_active = $2, applied_persistent = $3, applied_at = clock_timestamp()
where id = $1
