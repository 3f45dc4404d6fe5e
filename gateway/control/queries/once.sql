select route, body, status, answer, coalesce(ref, '00000000-0000-0000-0000-000000000000')
from control.idempotency_keys
where issuer = $1 and subject = $2 and key = $3
