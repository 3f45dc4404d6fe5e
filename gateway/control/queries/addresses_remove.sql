delete from control.machine_addresses where machine_id = $1
