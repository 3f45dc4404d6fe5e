update control.recovery set anchor_version = $1 where anchor_version < $1
