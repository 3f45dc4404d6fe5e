insert into control.machine_addresses (cluster, address, machine_id, position)
values ($1, $2, $3, $4)
