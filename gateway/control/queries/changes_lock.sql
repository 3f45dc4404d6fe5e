select change_id from control.change_states where change_id = any($1) order by change_id for update
