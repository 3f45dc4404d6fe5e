-- By the index of live changes, whatever has ended.
select c.id
from control.changes c
join control.change_states s on s.change_id = c.id
where c.id = any (array(select l.change_id from control.change_states l where l.state in ('waiting', 'approved')))
    and (s.state = 'waiting' and c.approve_by <= clock_timestamp() or s.state = 'approved' and s.use_by <= clock_timestamp())
order by c.id
limit 200
