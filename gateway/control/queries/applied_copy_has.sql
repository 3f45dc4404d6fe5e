select exists (select from control.applied_copies where machine_id = $1 and digest = $2)
