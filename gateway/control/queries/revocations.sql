select issuer, subject, reason, revoked_at
from control.identity_revocations
order by revoked_at, issuer, subject
