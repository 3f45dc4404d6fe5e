-- How the live bundle became so, and the highest signed counter before it. Without an activation that
-- fits, it counts as activated after all there are.
select coalesce(a.way, 'activate'),
    coalesce((select max(b.signed_counter) from control.bundle_activations b where a.counter is null or b.counter < a.counter), 0)
from control.live_bundle l
left join control.bundle_activations a on a.counter = l.counter and a.revision = l.revision
where l.revision = $1
