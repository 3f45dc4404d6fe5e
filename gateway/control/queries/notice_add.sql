insert into control.notices (id, change_id)
values ($1, $2)
on conflict on constraint notices_change_unique do nothing
