select * from control.drift_rows where id = $1
