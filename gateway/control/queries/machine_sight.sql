select active, persistent, active_version, persistent_version, landed, staged, at, version, stage, live_type
from control.machine_sights where machine_id = $1
