select count(*) from control.change_states where state = 'waiting'
