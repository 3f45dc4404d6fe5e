select revision, asked_at from control.bundle_preparations order by asked_at desc, revision limit $1
