insert into control.sealed_bytes (change_id, sealed) values ($1, $2)
