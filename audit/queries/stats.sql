-- How many entries of a time say what. field: 0 all, 1 verdict, 2 machine, 3 person, 4 method, 5 code.
select case grouping(verdict, machine_name, caller_issuer, method) when 15 then 0 when 7 then 1 when 11 then 2 when 13 then 3 else 4 end as field,
       coalesce(verdict, machine_name, caller_subject, method, '') as value, coalesce(caller_issuer, '') as issuer, count(*), sum(count)::bigint
from audit.entries where recorded_at >= $1 and recorded_at < $2
group by grouping sets ((), (verdict), (machine_name), (caller_issuer, caller_subject), (method))
union all
select 5, code, '', count(*), sum(count)::bigint
from audit.entries, unnest(codes) as code where recorded_at >= $1 and recorded_at < $2 and codes is not null
group by code
