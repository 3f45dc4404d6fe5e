select id from control.machines order by id for update
