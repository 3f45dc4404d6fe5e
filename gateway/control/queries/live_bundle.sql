select b.revision, b.content
from control.live_bundle l
join control.bundles b on b.revision = l.revision
