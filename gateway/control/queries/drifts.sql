select * from control.drift_rows
where (cardinality($1::text[]) = 0 or state = any($1))
    and ($2::uuid = '00000000-0000-0000-0000-000000000000' or machine_id = $2)
    and ($3::uuid = '00000000-0000-0000-0000-000000000000'
        or (since, id) < (select b.since, b.id from control.drifts b where b.id = $3))
order by since desc, id desc
limit $4
