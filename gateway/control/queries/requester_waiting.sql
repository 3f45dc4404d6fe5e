-- Waiting changes count; bytes count for as long as they are kept, whatever has become of the change.
select count(*) filter (where s.state = 'waiting' and c.approve_by > $3), coalesce(sum(c.size), 0)::bigint
from control.changes c
join control.change_states s on s.change_id = c.id
where c.issuer = $1 and c.subject = $2 and exists (select from control.sealed_bytes b where b.change_id = c.id)
