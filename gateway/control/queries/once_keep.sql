update control.idempotency_keys set status = $4, answer = $5, ref = $6 where issuer = $1 and subject = $2 and key = $3
