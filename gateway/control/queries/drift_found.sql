-- The machine moved on while the drift is open.
update control.drifts
set found_active = $2, found_persistent = $3, active_version = $4, persistent_version = $5, changes = $6, known = $7
where id = $1 and state = 'open'
