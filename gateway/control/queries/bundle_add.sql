insert into control.bundles (revision, content, entry_id)
values ($1, $2, $3)
on conflict on constraint bundles_pkey do nothing
