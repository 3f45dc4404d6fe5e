insert into control.approval_revocations (approval_id, reason, issuer, subject, authority_version, entry_id, revoked_at)
values ($1, $2, $3, $4, $5, $6, $7)
