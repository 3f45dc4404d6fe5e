-- Records of a few rows; $1, $2: when they were recorded, both included, which rules out partitions; $3: their ids.
select id, record from audit.entries where recorded_at >= $1 and recorded_at <= $2 and id = any ($3)
union all
select id, record from audit.outcomes where recorded_at >= $1 and recorded_at <= $2 and id = any ($3)
