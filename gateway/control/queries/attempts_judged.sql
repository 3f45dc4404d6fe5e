-- One machine's, or with the zero id those of all that are in service. Not those that can explain nothing: of a node that was
-- replaced, while a drift is open, and from before something else was applied or adopted.
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
where a.state in ('accounted', 'failed') and l.attempt_id is null and a.closed_at > clock_timestamp() - $2::interval
    and ($1::uuid = '00000000-0000-0000-0000-000000000000'
            and not exists (select from control.retirements r where r.machine_id = a.machine_id)
        or a.machine_id = $1)
    and (a.node_id, a.talos_cluster_id, a.smbios) = (m.node_id, m.talos_cluster_id, m.smbios)
    and not exists (select from control.drifts d where d.machine_id = a.machine_id and d.state = 'open')
    and not exists (select from control.attempts x where x.machine_id = a.machine_id and x.opened_at > a.opened_at and x.state = 'completed')
    and not exists (select from control.attempts x join control.late_landings y on y.attempt_id = x.id
        where x.machine_id = a.machine_id and x.opened_at > a.opened_at)
    and not exists (select from control.adoptions z where z.machine_id = a.machine_id and z.at > a.opened_at)
order by a.opened_at, a.id
