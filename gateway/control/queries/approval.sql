select * from control.approval_rows where id = $1
