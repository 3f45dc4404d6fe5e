-- Counts over a range; $1, $2: from, and before; $3: at most so many rows of each kind. counted is more than decisions where one entry
-- stands for several refusals.
with e as (
    select verdict, codes, coalesce(machine_name, '') as machine, coalesce(cluster, '') as cluster, coalesce(caller_issuer, '') as issuer,
           coalesce(caller_subject, '') as subject, count
    from audit.entries where recorded_at >= $1 and recorded_at < $2
), counted as (
    select 'verdict' as kind, verdict as name, '' as of, count(*) as decisions, sum(count)::bigint as counted, count(*) filter (where verdict <> 'allow') as refused
    from e group by verdict
    union all
    select 'code', code, '', count(*), sum(count)::bigint, count(*) filter (where verdict <> 'allow')
    from e, unnest(codes) as code group by code
    union all
    select 'machine', machine, cluster, count(*), sum(count)::bigint, count(*) filter (where verdict <> 'allow')
    from e where machine <> '' group by machine, cluster
    union all
    select 'person', subject, issuer, count(*), sum(count)::bigint, count(*) filter (where verdict <> 'allow')
    from e where subject <> '' group by subject, issuer
), ranked as (
    select *, row_number() over (partition by kind order by decisions desc, name, of) as rank from counted
)
select kind, name, of, decisions, counted, refused from ranked where rank <= $3
order by array_position(array['verdict', 'code', 'machine', 'person'], kind), rank
