-- Which version of the Talos credential each attempt was sent with. Null: it came from files, or
-- the attempt is older than this column.

alter table control.attempts add column credential_version bigint,
    add constraint attempts_credential_version check (credential_version > 0);

create or replace function control.attempt_keeps_change() returns trigger
    language plpgsql as $$
begin
    if (new.change_id, new.approvals_required, new.approval_groups, new.self_approval, new.size, new.credential_version)
        is distinct from
        (old.change_id, old.approvals_required, old.approval_groups, old.self_approval, old.size, old.credential_version) then
        raise exception 'what an attempt was opened with does not change'
            using errcode = 'BW012', constraint = 'attempts_immutable';
    end if;
    return new;
end $$;

comment on column control.attempts.credential_version is 'KV version of the Talos credential it was sent with; null when that came from files.';
