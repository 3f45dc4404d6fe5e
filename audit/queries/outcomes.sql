select recorded_at, id, entry_id, coalesce(attempt_id, '00000000-0000-0000-0000-000000000000'), kind, coalesce(state, ''),
       coalesce(code, ''), coalesce(digest, ''), coalesce(persistent_digest, ''), coalesce(caller_issuer, ''),
       coalesce(caller_subject, ''), duration_us, bytes_out, coalesce(instance, ''), leaf, record
from audit.outcomes
