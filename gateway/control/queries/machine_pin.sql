update control.machines
set node_id = $2, talos_cluster_id = $3, smbios = $4, pinned_at = clock_timestamp(), serial = serial + 1
where id = $1
