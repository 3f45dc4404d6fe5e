select * from control.approval_rows where change_id = any($1) order by at, id
