delete from control.idempotency_keys where created_at < clock_timestamp() - $1::interval
