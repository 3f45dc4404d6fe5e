select issuer, subject from control.identity_revocations where (issuer, subject) in (select * from unnest($1::text[], $2::text[]))
