-- When the row at index $2 of tree $1 was recorded.
select l.recorded_at from audit.leaves l where l.tree = $1 and l.index = $2
