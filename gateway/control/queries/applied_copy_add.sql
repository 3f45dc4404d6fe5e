insert into control.applied_copies (machine_id, digest, sealed_for, sealed) values ($1, $2, $3, $4)
on conflict (machine_id, digest) do nothing
