select state, at, issuer, subject, reason, overtaken_by, attempt_id, entry_id
from control.change_steps
where change_id = $1
order by position
