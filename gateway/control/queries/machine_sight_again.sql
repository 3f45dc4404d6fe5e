-- All is as it was seen before; unless something was written down since that was read.
update control.machine_sights s
set at = greatest(s.at, clock_timestamp() - $4::interval), version = $5, stage = $6, live_type = $7
from control.machines m
where s.machine_id = $1 and m.id = $1 and m.serial = $8 and (s.active, s.persistent) = ($2, $3)
