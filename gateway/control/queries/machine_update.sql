update control.machines
set port = $2, labels = $3, serial = serial + 1
where id = $1
