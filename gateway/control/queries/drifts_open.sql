select * from control.drift_rows where state = 'open' order by since, id
