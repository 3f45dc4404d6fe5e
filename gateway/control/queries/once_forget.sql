delete from control.idempotency_keys where issuer = $1 and subject = $2 and key = $3
