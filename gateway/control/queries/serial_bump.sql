update control.machines set serial = serial + 1 where id = $1
