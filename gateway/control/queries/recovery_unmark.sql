-- Takes the mark off; $1 is whether the version of the anchor is another OpenBao's from now on.
update control.recovery
set mark = 'none', message = '', lost_rows = 0, lost_from = null, lost_until = null, lost_revocations = 0, old_size = 0, old_root = '',
    revocations = 0, since = null, anchor_version = case when $1 then 0 else anchor_version end
