-- How many rows have no place, counted to $1, of those recorded at $2 or later if it is not null; and the age of the oldest in
-- microseconds. Both walk the primary key, so that the pages that an emptied queue leaves behind cost nothing.
select
    (select count(*)::int from (
        select u.recorded_at, u.id from audit.unsequenced u
        where u.recorded_at >= coalesce($2::timestamptz, '-infinity')
        order by u.recorded_at, u.id limit $1) w),
    coalesce((select greatest(0, (extract(epoch from clock_timestamp() - o.recorded_at) * 1000000)::bigint) from (
        select u.recorded_at from audit.unsequenced u
        where u.recorded_at >= coalesce($2::timestamptz, '-infinity') and isfinite(u.recorded_at)
        order by u.recorded_at, u.id limit 1) o), 0)
