select a.id, a.entry_id, a.machine_id, m.name, a.cluster, a.state,
    a.instance, a.generation, a.epoch, a.issuer, a.subject,
    a.request_key, a.mode, a.digest, a.base_active, a.base_persistent,
    a.node_id, a.talos_cluster_id, a.smbios,
    a.opened_at, a.send_by, a.lease_until, a.transport_deadline, control.settle_after(a),
    a.unresolved_at, a.closed_at, a.closed_by, a.read_active, a.read_persistent, a.landed, a.reason,
    coalesce(a.change_id, '00000000-0000-0000-0000-000000000000'), coalesce(a.credential_version, 0),
    l.seen_at, exists (select from control.retirements rt where rt.machine_id = a.machine_id)
from control.attempts a
join control.machines m on m.id = a.machine_id
left join control.late_landings l on l.attempt_id = a.id
where a.state = 'open' and a.lease_until < clock_timestamp()
order by a.opened_at, a.id
