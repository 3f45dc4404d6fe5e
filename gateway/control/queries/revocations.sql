select issuer, subject, reason, revoked_at, entry_id, seen
from control.identity_revocations
order by revoked_at, issuer, subject
