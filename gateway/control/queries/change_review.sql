select changes, discards, warnings from control.change_reviews where change_id = $1
