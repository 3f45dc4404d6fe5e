select * from control.change_rows where state in ('waiting', 'approved') order by id
