update control.change_states set required = $2, groups = $3, self_approval = $4 where change_id = $1
