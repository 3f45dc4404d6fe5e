select change_id from control.change_states
where machine_id = $1 and state in ('waiting', 'approved')
order by change_id
for update
