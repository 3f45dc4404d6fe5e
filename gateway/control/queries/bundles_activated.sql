select counter, revision, way, signed_counter, required, issuer, subject, entry_id, activated_at
from control.bundle_activations
order by counter desc
limit 1000
