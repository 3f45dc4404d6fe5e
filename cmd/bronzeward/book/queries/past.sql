-- Entries in the order they were recorded, with their records, behind one of them; $1, $2: when that was recorded, and its id; $3: recorded
-- before; $4: about this machine, empty for all; $5: whether entries without codes are wanted; $6: at most so many. The first condition
-- follows from the second, and rules out partitions.
select recorded_at, id, record
from audit.entries
where recorded_at >= $1 and (recorded_at, id) > ($1, $2) and recorded_at < $3
  and ($4 = '' or machine_name = $4) and ($5 or cardinality(codes) > 0)
order by recorded_at, id
limit $6
