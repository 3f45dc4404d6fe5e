select * from control.change_rows
where id in (select s.change_id from control.change_states s where s.machine_id = $1 and s.state in ('waiting', 'approved'))
order by created_at, id
