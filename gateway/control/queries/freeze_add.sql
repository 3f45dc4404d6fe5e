insert into control.freezes (id, machine_id, issuer, subject, reason, frozen_at, entry_id)
values ($1, $2, $3, $4, $5, $6, $7)
