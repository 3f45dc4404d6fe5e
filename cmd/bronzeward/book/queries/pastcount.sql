-- How many entries past.sql would give, and the time by now; $1, $2: from, and before; $3: about this machine, empty for all; $4: whether entries without codes are
-- wanted.
select count(*), clock_timestamp()
from audit.entries
where recorded_at >= $1 and recorded_at < $2 and ($3 = '' or machine_name = $3) and ($4 or cardinality(codes) > 0)
