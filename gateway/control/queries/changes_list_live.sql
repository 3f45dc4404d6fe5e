-- Of live changes alone. The array makes every plan begin at the index of those, whatever the
-- parameters are: what has ended in years costs nothing.
select * from control.change_rows
where id = any (array(select s.change_id from control.change_states s where s.state in ('waiting', 'approved') and s.state = any($1)))
    and ($2::uuid = '00000000-0000-0000-0000-000000000000' or machine_id = $2)
    and ($3 = '' or set_name = $3)
    and ($4 = '' or issuer = $4) and ($5 = '' or subject = $5)
    and ($6::uuid = '00000000-0000-0000-0000-000000000000'
        or (created_at, id) < (select b.created_at, b.id from control.changes b where b.id = $6))
order by created_at desc, id desc
limit $7
