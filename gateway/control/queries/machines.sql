select m.id, m.name, m.cluster, m.role, m.port, m.labels, m.serial,
    m.node_id, m.talos_cluster_id, m.smbios, m.pinned_at, m.applied_active, m.applied_persistent,
    array(select d.address from control.machine_addresses d where d.machine_id = m.id order by d.position),
    o.recorded_at, o.began_at, o.serial, o.node_id, o.talos_cluster_id, o.smbios,
    o.version, o.stage, o.live_type, o.active, o.persistent, o.active_version, o.persistent_version,
    f.id, f.issuer, f.subject, f.reason, f.frozen_at, f.entry_id,
    r.issuer, r.subject, r.reason, r.retired_at, r.entry_id
from control.machines m
left join control.freezes f on f.machine_id = m.id and f.lifted_at is null
left join control.retirements r on r.machine_id = m.id
left join lateral (
    select * from control.observations x where x.machine_id = m.id order by x.recorded_at desc limit 1
) o on true
order by m.name
