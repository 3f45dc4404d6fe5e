select key_id, counter, signatures, manifest
from control.bundle_signatures
where revision = $1
order by id desc
limit 100
