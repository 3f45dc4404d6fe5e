-- The sealed bytes of a change are the copy of what it applied.
insert into control.applied_copies (machine_id, digest, sealed_for, sealed)
select c.machine_id, c.digest, c.id, b.sealed
from control.changes c
join control.sealed_bytes b on b.change_id = c.id
where c.id = $1
on conflict (machine_id, digest) do nothing
