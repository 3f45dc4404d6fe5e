-- The open one of a machine.
select * from control.drift_rows where machine_id = $1 and state = 'open'
