insert into control.recovery_exits (epoch, revocations_settled, issuer, subject, reason, entry_id, exited_at)
values ($1, $2, $3, $4, $5, $6, $7)
