-- What was last seen of every machine.
select machine_id, active, persistent, active_version, persistent_version, landed, staged, at, version, stage, live_type
from control.machine_sights
