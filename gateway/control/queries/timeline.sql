select at, kind, id, issuer, subject, text, state
from (
    select o.recorded_at as at, 'observation' as kind, o.id, '' as issuer, '' as subject,
        format('%s, %s, Talos %s', o.live_type, o.stage, o.version) as text, '' as state
    from control.observations o where o.machine_id = $1
    union all
    -- Steps of one instant are a microsecond apart, in their order: a page may end between them.
    select t.at + interval '1 microsecond' * (row_number() over (partition by t.change_id, t.at order by t.position) - 1),
        'change', t.change_id, t.issuer, t.subject,
        case when t.overtaken_by = '' then t.reason else concat_ws(': ', t.reason, t.overtaken_by) end, t.state
    from control.change_steps t join control.changes c on c.id = t.change_id where c.machine_id = $1
    union all
    select a.at, 'approval', a.id, a.issuer, a.subject, a.digest, ''
    from control.approvals a join control.changes c on c.id = a.change_id where c.machine_id = $1
    union all
    select r.revoked_at, 'approval-revocation', r.approval_id, r.issuer, r.subject, r.reason, ''
    from control.approval_revocations r join control.approvals a on a.id = r.approval_id
    join control.changes c on c.id = a.change_id where c.machine_id = $1
    union all
    select x.opened_at, 'attempt', x.id, x.issuer, x.subject, x.reason, x.state
    from control.attempts x where x.machine_id = $1
    union all
    select t.at, 'drift', t.drift_id, '', '', format('runs %s, on its disk %s', t.found_active, t.found_persistent), t.state
    from control.drift_steps t join control.drifts d on d.id = t.drift_id where d.machine_id = $1
    union all
    select l.seen_at, 'late-landing', l.attempt_id, '', '', l.active, x.state
    from control.late_landings l join control.attempts x on x.id = l.attempt_id where l.machine_id = $1
    union all
    select f.frozen_at, 'freeze', f.id, f.issuer, f.subject, f.reason, ''
    from control.freezes f where f.machine_id = $1
    union all
    select f.lifted_at, 'unfreeze', f.id, f.lifted_issuer, f.lifted_subject, f.lifted_reason, ''
    from control.freezes f where f.machine_id = $1 and f.lifted_at is not null
    union all
    select r.retired_at, 'retirement', r.machine_id, r.issuer, r.subject, r.reason, ''
    from control.retirements r where r.machine_id = $1
) items
where ($2::timestamptz is null or (at, id) < ($2, $3::uuid))
order by at desc, id desc
limit $4
