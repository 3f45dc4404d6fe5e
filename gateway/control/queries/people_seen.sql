select p.issuer, p.subject, p.kind, p.groups
from control.people p
where p.kind = 'human'
    and not exists (select from control.identity_revocations r where (r.issuer, r.subject) = (p.issuer, p.subject))
order by p.seen_at desc
limit 10000
