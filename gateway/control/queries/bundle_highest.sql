select coalesce(max(signed_counter), 0), coalesce(bool_or(revision = $1), false)
from control.bundle_activations
