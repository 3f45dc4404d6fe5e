select r.* from control.approval_rows r
join control.change_states s on s.change_id = r.change_id
where s.machine_id = $1 and s.state in ('waiting', 'approved')
order by r.at, r.id
