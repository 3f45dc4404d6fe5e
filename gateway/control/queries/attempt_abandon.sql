-- An attempt of an epoch that ends: whether it landed, its owner does not say any more.
update control.attempts
set state = 'unresolved', reason = $2, closed_by = $3, unresolved_at = $4
where id = $1 and state = 'open'
