select m.id
from control.machines m
where m.id = (select a.machine_id from control.attempts a where a.id = $1)
for update
