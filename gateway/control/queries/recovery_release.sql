insert into control.recovery_releases (epoch, machine_id, observation_id, issuer, subject, entry_id, released_at)
values ($1, $2, $3, $4, $5, $6, $7)
