select * from control.change_rows where id = $1
