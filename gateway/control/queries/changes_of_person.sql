-- A change that is being sent comes back when its attempt changes nothing, so it is locked too.
select c.id
from control.changes c
join control.change_states s on s.change_id = c.id
where (s.state in ('waiting', 'approved')
        or s.state = 'spent' and exists (select from control.attempts t where t.id = s.attempt_id and t.state = 'open'))
    and ((c.issuer, c.subject) = ($1, $2)
        or exists (select from control.approvals a where a.change_id = c.id and (a.issuer, a.subject) = ($1, $2)))
order by c.id
