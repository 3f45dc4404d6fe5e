-- What proves a law, who agreed to it, and in which way it became live.

create table control.bundle_signatures (
    id bigint generated always as identity,
    revision text not null,
    key_id text not null,
    counter bigint not null,
    signatures bytea not null,
    manifest bytea not null,
    entry_id uuid not null,
    saved_at timestamptz not null default clock_timestamp(),
    constraint bundle_signatures_pkey primary key (id),
    constraint bundle_signatures_bundle_fkey foreign key (revision) references control.bundles (revision),
    constraint bundle_signatures_counter check (counter >= 0),
    constraint bundle_signatures_size check (length(signatures) between 1 and 1048576 and length(manifest) <= 65536)
);
create unique index bundle_signatures_once on control.bundle_signatures (revision, sha256(signatures), sha256(manifest));

create table control.bundle_approvals (
    revision text not null,
    follows bigint not null,
    epoch uuid not null,
    issuer text not null,
    subject text not null,
    kind text not null,
    groups text[] not null,
    entry_id uuid not null,
    at timestamptz not null default clock_timestamp(),
    constraint bundle_approvals_pkey primary key (revision, follows, epoch, issuer, subject),
    constraint bundle_approvals_bundle_fkey foreign key (revision) references control.bundles (revision),
    constraint bundle_approvals_by_people check (kind = 'human')
);

alter table control.bundle_activations
    add column way text not null default 'activate',
    add column follows bigint not null default 0,
    add column signed_counter bigint not null default 0,
    add column required integer not null default 0,
    add column issuer text not null default '',
    add column subject text not null default '',
    add constraint bundle_activations_way check (way in ('activate', 'rollback')),
    add constraint bundle_activations_follows check (follows >= 0 and follows < counter),
    add constraint bundle_activations_signed check (signed_counter >= 0),
    add constraint bundle_activations_required check (required between 0 and 100);

-- Who agreed that this law may follow the live one, and still counts.
create function control.bundle_agreed(of_revision text)
    returns setof control.bundle_approvals language sql stable as $$
    select a.* from control.bundle_approvals a, control.live_bundle l, control.installation i
    where a.revision = of_revision and a.kind = 'human' and a.follows = l.counter and a.epoch = i.epoch
        and not exists (select from control.identity_revocations r where (r.issuer, r.subject) = (a.issuer, a.subject))
$$;

create function control.bundle_agreement_is_current() returns trigger
    language plpgsql as $$
begin
    if new.follows is distinct from (select counter from control.live_bundle)
        or new.epoch is distinct from (select epoch from control.installation) then
        raise exception 'whoever agrees to a law agrees that it follows the live one'
            using errcode = 'BW018', constraint = 'bundle_approvals_current';
    end if;
    return new;
end $$;
create trigger bundle_approvals_current before insert on control.bundle_approvals
    for each row execute function control.bundle_agreement_is_current();

-- Only a rollback makes an older law live, and it makes none live that never was.
create function control.activation_counts_upward() returns trigger
    language plpgsql as $$
begin
    if new.follows is distinct from (select counter from control.live_bundle) then
        raise exception 'an activation follows the live law'
            using errcode = 'BW018', constraint = 'bundle_activations_follow_live';
    end if;
    if new.way = 'activate' and new.signed_counter > 0
        and new.signed_counter <= (select max(signed_counter) from control.bundle_activations) then
        raise exception 'the counter of this law is not above the highest that was ever live'
            using errcode = 'BW018', constraint = 'bundle_activations_counter_upward';
    end if;
    if new.way = 'rollback' and not exists (select from control.bundle_activations a where a.revision = new.revision) then
        raise exception 'a law that never was live is not gone back to'
            using errcode = 'BW018', constraint = 'bundle_activations_was_live';
    end if;
    return new;
end $$;
create trigger bundle_activations_counter_upward before insert on control.bundle_activations
    for each row execute function control.activation_counts_upward();

create function control.activation_has_agreement() returns trigger
    language plpgsql as $$
begin
    if new.required > (select count(distinct (a.issuer, a.subject)) from control.bundle_agreed(new.revision) a
        where (a.issuer, a.subject) <> (new.issuer, new.subject)) then
        raise exception 'too few people agreed to this law'
            using errcode = 'BW018', constraint = 'bundle_activations_agreed';
    end if;
    return new;
end $$;
create trigger bundle_activations_agreed before insert on control.bundle_activations
    for each row execute function control.activation_has_agreement();

create trigger bundle_signatures_immutable before update or delete or truncate on control.bundle_signatures
    for each statement execute function control.never_changes();
create trigger bundle_approvals_immutable before update or delete or truncate on control.bundle_approvals
    for each statement execute function control.never_changes();

revoke all on function control.bundle_agreed(text), control.bundle_agreement_is_current(),
    control.activation_counts_upward(), control.activation_has_agreement() from public;
grant execute on function control.bundle_agreed(text), control.bundle_agreement_is_current(),
    control.activation_counts_upward(), control.activation_has_agreement() to bronzeward_gateway;
grant select on control.bundle_signatures, control.bundle_approvals to bronzeward_gateway, bronzeward_auditor;
grant insert on control.bundle_signatures, control.bundle_approvals to bronzeward_gateway;

comment on function control.bundle_agreed(text) is 'Agreements to a law that count now: the live law is the one it is to follow, the epoch is current, nobody in it is revoked.';
comment on function control.bundle_agreement_is_current() is 'Refuses an agreement that names another live law or epoch than there is.';
comment on function control.activation_counts_upward() is 'Refuses to activate a signed law whose counter was reached before, and to go back to one that never was live.';
comment on function control.activation_has_agreement() is 'Refuses an activation to which fewer people agreed than the law asks for.';
comment on table control.bundle_signatures is 'What proves a bundle: OPA''s signature and manifest. Verified with pinned keys by whoever loads the bundle. Append-only.';
comment on column control.bundle_signatures.id is 'Order of arrival.';
comment on column control.bundle_signatures.revision is 'The bundle that is signed.';
comment on column control.bundle_signatures.key_id is 'The pinned key it was verified with when it came; empty when no key was pinned then.';
comment on column control.bundle_signatures.counter is 'The counter of the manifest.';
comment on column control.bundle_signatures.signatures is 'The file .signatures.json.';
comment on column control.bundle_signatures.manifest is 'The file .manifest.';
comment on column control.bundle_signatures.entry_id is 'The entry of the act that brought it.';
comment on column control.bundle_signatures.saved_at is 'When.';
comment on table control.bundle_approvals is 'One person''s agreement that a law may follow the live one, in one epoch. Append-only.';
comment on column control.bundle_approvals.revision is 'The law that is agreed to.';
comment on column control.bundle_approvals.follows is 'Counter of the law that was live then: once another becomes live, this agreement counts for nothing.';
comment on column control.bundle_approvals.epoch is 'The epoch it was given in; it counts in no other.';
comment on column control.bundle_approvals.issuer is 'Issuer of who agreed.';
comment on column control.bundle_approvals.subject is 'Subject of who agreed.';
comment on column control.bundle_approvals.kind is 'Always human.';
comment on column control.bundle_approvals.groups is 'Their groups then.';
comment on column control.bundle_approvals.entry_id is 'The entry.';
comment on column control.bundle_approvals.at is 'When.';
comment on column control.bundle_activations.way is 'activate, or rollback: a law that was live before.';
comment on column control.bundle_activations.follows is 'Counter of the law that was live before it.';
comment on column control.bundle_activations.signed_counter is 'The counter that the signed bundle carries; 0 where no key was pinned.';
comment on column control.bundle_activations.required is 'How many others had to agree, by the law that was live.';
comment on column control.bundle_activations.issuer is 'Issuer of who did it; empty for a watched directory.';
comment on column control.bundle_activations.subject is 'Subject of who did it.';
