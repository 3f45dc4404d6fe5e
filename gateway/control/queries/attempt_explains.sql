-- An attempt that was accounted for and may have landed all the same, later than anything else that is known as applied.
select a.id, a.entry_id
from control.attempts a
join control.machines m on m.id = a.machine_id
where a.machine_id = $1 and a.state in ('accounted', 'failed') and a.digest = $2 and a.closed_at > coalesce(m.applied_at, '-infinity')
order by a.opened_at desc limit 1
