insert into control.machines (id, name, cluster, role, port, labels)
values ($1, $2, $3, $4, $5, $6)
