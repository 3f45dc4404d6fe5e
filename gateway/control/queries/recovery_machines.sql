-- Machines that the recovery $1 holds, and how far each is.
select m.id, m.name, m.cluster, m.pinned_at is not null, r.released_at, o.id, o.recorded_at,
    coalesce(m.pinned_at is null or (o.node_id, o.talos_cluster_id, o.smbios) = (m.node_id, m.talos_cluster_id, m.smbios), false)
from control.machines m
join control.recoveries e on e.epoch = $1
left join control.recovery_releases r on r.epoch = e.epoch and r.machine_id = m.id
left join lateral (
    select * from control.observations x where x.machine_id = m.id and x.began_at >= e.entered_at order by x.recorded_at desc limit 1
) o on true
where m.created_at <= e.entered_at and not exists (select from control.retirements x where x.machine_id = m.id)
order by m.name
