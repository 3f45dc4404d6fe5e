select issuer, subject
from control.identity_revocations
where authority_version > $1
