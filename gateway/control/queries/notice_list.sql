select id, change_id, state, tries, next_at, created_at, ended_at, error
from control.notices
where not $1 or state = 'dead'
order by created_at desc, id desc
limit $2
