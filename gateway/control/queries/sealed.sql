select sealed from control.sealed_bytes where change_id = $1
