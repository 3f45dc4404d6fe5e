with due as materialized (
    select id
    from control.notices
    where state = 'waiting' and next_at <= (select clock_timestamp())
    order by next_at, id
    limit $1
    for update skip locked
)
update control.notices n
set tries = n.tries + 1, next_at = clock_timestamp() + $2::interval
from due
where n.id = due.id
returning n.id, n.change_id, n.state, n.tries, n.next_at, n.created_at, n.ended_at, n.error
