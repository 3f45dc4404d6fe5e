insert into control.idempotency_keys (issuer, subject, key, route, body) values ($1, $2, $3, $4, $5)
on conflict on constraint idempotency_keys_pkey do nothing
