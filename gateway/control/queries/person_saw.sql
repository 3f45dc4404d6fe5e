insert into control.people as p (issuer, subject, kind, groups, proof_issued)
values ($1, $2, $3, $4, $5)
on conflict on constraint people_pkey do update
set kind = excluded.kind, groups = excluded.groups, proof_issued = excluded.proof_issued, seen_at = clock_timestamp()
where p.proof_issued <= excluded.proof_issued
