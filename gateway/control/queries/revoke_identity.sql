insert into control.identity_revocations (issuer, subject, reason, authority_version, entry_id)
values ($1, $2, $3, $4, $5)
