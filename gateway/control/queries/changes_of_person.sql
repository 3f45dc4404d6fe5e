-- A change that is being sent comes back when its attempt changes nothing, so it is locked too.
select s.change_id
from control.change_states s
where s.change_id in (
        select c.id from control.changes c where c.issuer = $1 and c.subject = $2
        union
        select a.change_id from control.approvals a where a.issuer = $1 and a.subject = $2)
    and (s.state in ('waiting', 'approved')
        or s.state = 'spent' and exists (select from control.attempts t where t.id = s.attempt_id and t.state = 'open'))
order by s.change_id
