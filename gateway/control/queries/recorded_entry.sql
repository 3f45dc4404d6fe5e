select exists (select from audit.entries where id = $1)
