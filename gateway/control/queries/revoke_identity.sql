insert into control.identity_revocations (issuer, subject, reason, authority_version, entry_id, revoked_at, seen)
values ($1, $2, $3, $4, $5, $6, exists (select from audit.entries e where e.caller_subject = $2 and e.caller_issuer = $1))
returning seen, revoked_at
