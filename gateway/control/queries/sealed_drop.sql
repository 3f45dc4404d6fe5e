-- Bytes of changes that ended some time ago, a few at a time. A change whose attempt may still land keeps them.
delete from control.sealed_bytes
where change_id in (
    select b.change_id
    from control.sealed_bytes b
    join control.change_states s on s.change_id = b.change_id
    left join control.attempts a on a.id = s.attempt_id
    where s.state not in ('waiting', 'approved') and s.since < clock_timestamp() - $1::interval
        and (a.id is null or a.state not in ('open', 'unresolved', 'rejected', 'not_sent'))
    limit 100)
