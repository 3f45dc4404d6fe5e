-- Marks what was found. What is marked as rolled back stays so.
update control.recovery
set mark = $1, message = $2, lost_rows = $3, lost_from = $4, lost_until = $5, lost_revocations = $6, old_size = $7, old_root = $8,
    revocations = (select count(*) from control.identity_revocations), since = $9
where mark <> 'rolled-back'
