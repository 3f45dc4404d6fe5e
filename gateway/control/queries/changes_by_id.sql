select * from control.change_rows where id = any($1) order by id
