update control.drifts
set state = $2, found_active = $3, found_persistent = $4, closed_at = $5, closed_entry_id = $6, change_id = $7
where id = $1 and state = 'open'
