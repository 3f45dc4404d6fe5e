insert into control.change_states (change_id, machine_id, binding, since, issuer, subject, entry_id, required, groups, self_approval)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
