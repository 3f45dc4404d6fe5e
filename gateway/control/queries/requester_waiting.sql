select count(*), coalesce(sum(c.size), 0)::bigint
from control.changes c
join control.change_states s on s.change_id = c.id
where s.state = 'waiting' and c.issuer = $1 and c.subject = $2 and c.approve_by > $3
