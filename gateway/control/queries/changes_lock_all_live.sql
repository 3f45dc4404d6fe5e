select change_id from control.change_states where state in ('waiting', 'approved') order by change_id for update
