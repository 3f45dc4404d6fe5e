select id, machine_id, issuer, subject, reason, frozen_at, entry_id,
    lifted_at, lifted_issuer, lifted_subject, lifted_reason, lifted_entry_id
from control.freezes
where machine_id = $1
order by frozen_at desc, id desc
limit 1000
