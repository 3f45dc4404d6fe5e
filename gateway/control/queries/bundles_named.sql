select revision from control.bundles where starts_with(revision, $1) order by revision limit 2
