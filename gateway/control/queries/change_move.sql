update control.change_states
set state = $2, since = $3, use_by = $4, attempt_id = $5, issuer = $6, subject = $7, reason = $8, overtaken_by = $9, entry_id = $10, adopted = $11
where change_id = $1
