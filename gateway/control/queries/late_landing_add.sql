insert into control.late_landings (attempt_id, machine_id, active, persistent, seen_at, outcome_id)
values ($1, $2, $3, $4, $5, $6)
