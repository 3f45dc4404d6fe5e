insert into control.change_reviews (change_id, changes, discards, warnings) values ($1, $2, $3, $4)
