select (select epoch from control.installation), mark, message, since, lost_rows, lost_from, lost_until, lost_revocations, revocations,
    old_size, old_root, anchor_version, (select count(*) from control.identity_revocations)
from control.recovery
