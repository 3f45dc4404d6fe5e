-- The gateway owns nothing and deletes nothing but a machine's addresses.

revoke all on all functions in schema control from public;
grant usage on schema control to bronzeward_gateway, bronzeward_auditor;
grant select on all tables in schema control to bronzeward_gateway, bronzeward_auditor;
-- The authority lock is among them: whoever may take it can stop every decision.
grant execute on all functions in schema control to bronzeward_gateway;
grant execute on function control.settle_after(control.attempts) to bronzeward_auditor;
grant usage on sequence control.generations to bronzeward_gateway;

grant insert on control.clusters, control.machines, control.machine_addresses, control.observations,
    control.identity_revocations, control.bundles, control.bundle_activations, control.attempts
    to bronzeward_gateway;
grant update on control.authority, control.live_bundle to bronzeward_gateway;
grant update (rollout_limit) on control.clusters to bronzeward_gateway;
grant update (port, labels, serial, node_id, talos_cluster_id, smbios, pinned_at,
    applied_active, applied_persistent, applied_at) on control.machines to bronzeward_gateway;
grant delete on control.machine_addresses to bronzeward_gateway;
grant update (state, lease_until, unresolved_at, closed_at, closed_by, read_active, read_persistent, landed, reason)
    on control.attempts to bronzeward_gateway;
