-- Those who agreed to a law are known by it, however they proved who they are.
select s.issuer, s.subject, s.kind, s.groups
from (
    select issuer, subject, kind, groups from control.people
    union
    select issuer, subject, kind, groups from control.bundle_approvals
) s
where s.kind = 'human'
    and not exists (select from control.identity_revocations r where (r.issuer, r.subject) = (s.issuer, s.subject))
limit 10000
