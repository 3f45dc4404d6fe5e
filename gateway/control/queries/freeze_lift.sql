update control.freezes
set lifted_at = $2, lifted_issuer = $3, lifted_subject = $4, lifted_reason = $5, lifted_entry_id = $6
where id = $1
