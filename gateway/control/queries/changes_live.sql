select * from control.change_rows
where machine_id = $1 and state in ('waiting', 'approved')
order by created_at, id
