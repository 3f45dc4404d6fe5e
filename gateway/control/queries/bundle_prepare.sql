insert into control.bundle_preparations (revision) values ($1)
on conflict on constraint bundle_preparations_pkey do update set asked_at = clock_timestamp()
