insert into control.retirements (machine_id, issuer, subject, reason, addresses, retired_at, entry_id)
values ($1, $2, $3, $4, $5, $6, $7)
