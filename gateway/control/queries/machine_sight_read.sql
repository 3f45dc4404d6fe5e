-- An attempt, or an adoption, was written down with what was read of the machine. Versions stay as last seen: the next sight
-- tells steps by them.
update control.machine_sights
set active = $2, persistent = $3, at = clock_timestamp(), staged = case when $2 <> $3 and (active, persistent) = ($2, $3) then staged end
where machine_id = $1
