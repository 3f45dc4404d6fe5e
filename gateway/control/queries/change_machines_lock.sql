select id from control.machines
where id in (select c.machine_id from control.changes c where c.id = any($1))
order by id
for update
