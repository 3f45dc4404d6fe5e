-- Views for who reads with SQL alone. They are in the schema audit and here because they join the book with intent.
--
-- They run with their owner's rights, not with those of who asks (no security_invoker): nothing is hidden by a view that
-- a row's owner would have to decide, the views are the same for everybody, and a login may be given them and no table.
-- They are for reading: each joins or aggregates, so that none can be written through, and SELECT is all that is granted.
--
-- A column that a view names cannot change its type or go. A later migration that needs that drops the view first and
-- makes it again.

-- A record that is no JSON was not written by a gateway. It must not keep the others from being read.
create function audit.members(record bytea) returns jsonb
    language plpgsql immutable strict parallel unsafe set search_path = pg_catalog, pg_temp
as $$
begin
    return convert_from(record, 'UTF8')::jsonb;
exception when others then
    return null;
end
$$;
comment on function audit.members(bytea) is 'The members of a record; null when it is no JSON, which `bronzeward decisions verify` looks into.';

-- TypeID v0.3: the prefix, and the 128 bits in 26 letters of Crockford's base 32.
create function audit.typed(prefix text, id uuid) returns text
    language sql immutable strict parallel safe set search_path = pg_catalog, pg_temp
as $$
    select prefix || '_' || string_agg(substr('0123456789abcdefghjkmnpqrstvwxyz', 1 + substring(bits from 1 + 5 * n for 5)::bit(5)::integer, 1), '' order by n)
    from (select b'00' || string_agg(get_byte(uuid_send(id), i)::bit(8)::text, '' order by i)::bit varying as bits from generate_series(0, 15) i) whole,
        generate_series(0, 25) n
$$;
comment on function audit.typed(text, uuid) is 'An id as people type it: chg_… of a change, apr_… of an approval.';

create view audit.decisions as
    select e.recorded_at, e.id, e.kind, e.verdict, e.method, e.class, e.mode, e.dry_run,
        e.caller_issuer, e.caller_subject, e.caller_kind, e.proof, e.client_address,
        e.machine_id, e.machine_name, e.cluster, e.digest, e.base_digest, e.persistent_digest,
        e.change_id, e.attempt_id, e.epoch, e.authority_version, e.policy_revision, e.codes,
        (select string_agg(r.value ->> 'message', '; ' order by r.ordinality)
            from jsonb_array_elements(case when jsonb_typeof(m.members -> 'reasons') = 'array' then m.members -> 'reasons' end) with ordinality r) as reasons,
        m.members ->> 'detail' as detail,
        e.count, e.instance,
        o.recorded_at as outcome_at, o.kind as outcome_kind, coalesce(o.state, o.code) as outcome,
        audit.members(o.record) ->> 'message' as outcome_message,
        m.members -> 'facts' as facts
    from audit.entries e
    cross join lateral (select audit.members(e.record) as members) m
    left join lateral (
        select o.recorded_at, o.kind, o.state, o.code, o.record
        from audit.outcomes o
        where o.entry_id = e.id and o.recorded_at >= e.recorded_at - interval '1 hour'
        order by o.recorded_at desc, o.id desc limit 1
    ) o on true;

create view audit.refusals as
    select e.recorded_at, e.id, e.verdict, e.kind, e.caller_issuer, e.caller_subject, e.client_address,
        e.machine_name, e.cluster, e.method, e.class, e.digest, e.change_id,
        r.value ->> 'code' as code, r.value ->> 'severity' as severity,
        coalesce(r.value ->> 'message', m.members ->> 'detail') as message, r.value ->> 'hint' as hint, r.value ->> 'rule' as rule,
        e.policy_revision, e.count
    from audit.entries e
    cross join lateral (select audit.members(e.record) as members) m
    left join lateral jsonb_array_elements(case when jsonb_typeof(m.members -> 'reasons') = 'array' then m.members -> 'reasons' end) r on true
    where e.verdict in ('deny', 'refuse');

create view audit.approvals as
    select p.at, p.id, audit.typed('apr', p.id) as approval, p.change_id, audit.typed('chg', p.change_id) as change,
        p.digest, c.machine_id, m.name as machine_name, c.cluster,
        p.issuer as approver_issuer, p.subject as approver_subject, p.groups as approver_groups, p.self, p.comment,
        c.issuer as requester_issuer, c.subject as requester_subject, c.created_at as requested_at,
        s.state as change_state, s.attempt_id,
        least(v.revoked_at, i.revoked_at) as revoked_at, v.issuer as revoked_by_issuer, v.subject as revoked_by_subject,
        coalesce(v.reason, i.reason) as revoked_reason,
        p.epoch, p.epoch = (select epoch from control.installation) as epoch_current,
        p.entry_id as decision_id, coalesce(v.entry_id, i.entry_id) as revoked_decision_id
    from control.approvals p
    join control.changes c on c.id = p.change_id
    join control.change_states s on s.change_id = c.id
    join control.machines m on m.id = c.machine_id
    left join control.approval_revocations v on v.approval_id = p.id
    left join control.identity_revocations i on (i.issuer, i.subject) = (p.issuer, p.subject);

create view audit.applies as
    select a.opened_at, a.closed_at, a.id as attempt_id, a.entry_id as decision_id, a.state, a.machine_id, m.name as machine_name, a.cluster, a.mode,
        a.change_id, audit.typed('chg', a.change_id) as change,
        c.issuer as requester_issuer, c.subject as requester_subject, c.created_at as requested_at,
        a.issuer as spender_issuer, a.subject as spender_subject,
        a.approvals_required, p.approvals, p.approvers,
        a.base_active as digest_before, a.base_persistent as digest_before_persistent, a.digest as digest_asked,
        nullif(a.read_active, '') as digest_after, nullif(a.read_persistent, '') as digest_after_persistent,
        o.outcomes, o.answer, a.landed, nullif(a.reason, '') as reason, nullif(a.closed_by, '') as closed_by,
        a.unresolved_at, a.instance, a.epoch, a.credential_version
    from control.attempts a
    join control.machines m on m.id = a.machine_id
    left join control.changes c on c.id = a.change_id
    cross join lateral (
        select coalesce(jsonb_agg(jsonb_build_object('approval', p.approval, 'issuer', p.approver_issuer, 'subject', p.approver_subject, 'groups', p.approver_groups,
                'at', p.at, 'comment', p.comment, 'revoked_at', p.revoked_at) order by p.at, p.id), '[]') as approvals,
            coalesce(array_agg(p.approver_subject order by p.at, p.id) filter (where p.revoked_at is null or p.revoked_at > a.opened_at), '{}') as approvers
        from audit.approvals p
        where p.change_id = a.change_id and p.at <= a.opened_at
    ) p
    cross join lateral (
        select coalesce(jsonb_agg(jsonb_build_object('at', o.recorded_at, 'kind', o.kind, 'state', o.state, 'code', o.code, 'digest', o.digest,
                'persistent_digest', o.persistent_digest, 'subject', o.caller_subject, 'message', audit.members(o.record) ->> 'message') order by o.recorded_at, o.id), '[]') as outcomes,
            (array_agg(o.code order by o.recorded_at, o.id) filter (where o.kind in ('answered', 'unanswered')))[1] as answer
        from audit.outcomes o
        where o.attempt_id = a.id and o.recorded_at >= a.opened_at - interval '1 hour'
    ) o;

create view audit.unresolved as
    select a.opened_at, a.unresolved_at, a.id as attempt_id, a.entry_id as decision_id, a.state, a.state in ('open', 'unresolved') as holds,
        a.machine_id, m.name as machine_name, a.cluster, a.digest, audit.typed('chg', a.change_id) as change, a.issuer as spender_issuer, a.subject as spender_subject,
        a.instance, control.settle_after(a) as account_after,
        o.recorded_at as accounted_at, o.caller_issuer as accounted_by_issuer, o.caller_subject as accounted_by_subject,
        audit.members(o.record) ->> 'message' as accounted_reason, a.landed as accounted_landed, a.closed_at
    from control.attempts a
    join control.machines m on m.id = a.machine_id
    left join lateral (
        select o.recorded_at, o.caller_issuer, o.caller_subject, o.record
        from audit.outcomes o
        where o.attempt_id = a.id and o.recorded_at >= a.opened_at - interval '1 hour' and o.kind = 'accounted'
        order by o.recorded_at desc, o.id desc limit 1
    ) o on true
    where a.state in ('open', 'unresolved') or a.unresolved_at is not null;
create index attempts_unresolved_once on control.attempts (unresolved_at) where unresolved_at is not null;

revoke all on function audit.members(bytea), audit.typed(text, uuid) from public;
grant execute on function audit.members(bytea), audit.typed(text, uuid) to bronzeward_auditor;
grant select on audit.decisions, audit.refusals, audit.approvals, audit.applies, audit.unresolved to bronzeward_auditor;

comment on view audit.decisions is 'Every entry with what the rules said and its newest outcome. Give a range of recorded_at.';
comment on column audit.decisions.recorded_at is 'Database clock when the entry was inserted.';
comment on column audit.decisions.id is 'The decision, as shown to the caller.';
comment on column audit.decisions.kind is 'rpc: a call to the Talos API; http: an act on Bronzeward; policy: a bundle; system: the gateway itself.';
comment on column audit.decisions.verdict is 'allow and deny are the policy''s; refuse is no policy verdict.';
comment on column audit.decisions.method is 'Full gRPC method, or the act.';
comment on column audit.decisions.class is 'Class of the method, or of the refusal.';
comment on column audit.decisions.mode is 'Apply mode as talosctl spells it.';
comment on column audit.decisions.dry_run is 'True when the call asked to change nothing.';
comment on column audit.decisions.caller_issuer is 'Who vouched for the caller; null when nobody was proven.';
comment on column audit.decisions.caller_subject is 'The caller at that issuer.';
comment on column audit.decisions.caller_kind is 'human or automation.';
comment on column audit.decisions.proof is 'certificate, token or certificate+token.';
comment on column audit.decisions.client_address is 'Where the connection came from; "other" when refusals of many addresses share the row.';
comment on column audit.decisions.machine_id is 'The target.';
comment on column audit.decisions.machine_name is 'Its name when it was judged.';
comment on column audit.decisions.cluster is 'Its cluster.';
comment on column audit.decisions.digest is 'Digest of the configuration asked for.';
comment on column audit.decisions.base_digest is 'Digest of the configuration active on the machine when it was judged.';
comment on column audit.decisions.persistent_digest is 'Digest of the configuration on its disk when it was judged.';
comment on column audit.decisions.change_id is 'The Change the call was or became, as people type it.';
comment on column audit.decisions.attempt_id is 'The Attempt it opened.';
comment on column audit.decisions.epoch is 'The epoch it belongs to.';
comment on column audit.decisions.authority_version is 'The authority version it was judged at; 0 when nothing was judged.';
comment on column audit.decisions.policy_revision is 'SHA-256 of the law that judged; null when none did.';
comment on column audit.decisions.codes is 'Codes of all reasons, in order.';
comment on column audit.decisions.reasons is 'What the rules said, in one line; read from the record.';
comment on column audit.decisions.detail is 'One sentence, for what has no facts; read from the record.';
comment on column audit.decisions.count is 'How many refusals the row stands for; 1 for everything else.';
comment on column audit.decisions.instance is 'The gateway that wrote it.';
comment on column audit.decisions.outcome_at is 'Database clock of the newest outcome; null when there is none.';
comment on column audit.decisions.outcome_kind is 'Kind of the newest outcome.';
comment on column audit.decisions.outcome is 'The newest outcome in a word: the attempt''s state, or the node''s code.';
comment on column audit.decisions.outcome_message is 'Its message; read from the record.';
comment on column audit.decisions.facts is 'Everything the law saw; read from the record.';

comment on view audit.refusals is 'What was denied or refused: one row per reason, and one for what had none. Give a range of recorded_at.';
comment on column audit.refusals.recorded_at is 'Database clock when the entry was inserted.';
comment on column audit.refusals.id is 'The decision.';
comment on column audit.refusals.verdict is 'deny: the policy''s; refuse: no policy verdict.';
comment on column audit.refusals.kind is 'rpc, http, policy or system.';
comment on column audit.refusals.caller_issuer is 'Who vouched for the caller; null when nobody was proven.';
comment on column audit.refusals.caller_subject is 'The caller at that issuer.';
comment on column audit.refusals.client_address is 'Where the connection came from; "other" when refusals of many addresses share the row.';
comment on column audit.refusals.machine_name is 'The target''s name when it was judged.';
comment on column audit.refusals.cluster is 'Its cluster.';
comment on column audit.refusals.method is 'Full gRPC method, or the act.';
comment on column audit.refusals.class is 'Class of the method, or of the refusal.';
comment on column audit.refusals.digest is 'Digest of the configuration asked for.';
comment on column audit.refusals.change_id is 'The Change the call was or became, as people type it.';
comment on column audit.refusals.code is 'Code of the reason; null when the entry has none.';
comment on column audit.refusals.severity is 'deny: it refused the call; warn and shadow did not.';
comment on column audit.refusals.message is 'What the rule said, or the entry''s one sentence where no rule did.';
comment on column audit.refusals.hint is 'What the rule told the caller to do.';
comment on column audit.refusals.rule is 'The rule that said it.';
comment on column audit.refusals.policy_revision is 'SHA-256 of the law that judged; null when none did.';
comment on column audit.refusals.count is 'How many refusals the row stands for.';

comment on view audit.approvals is 'Every approval with its change, and whether it was taken back.';
comment on column audit.approvals.at is 'When it was given, by the database clock.';
comment on column audit.approvals.id is 'The approval.';
comment on column audit.approvals.approval is 'Its id as people type it.';
comment on column audit.approvals.change_id is 'The change it is for.';
comment on column audit.approvals.change is 'Its id as people type it.';
comment on column audit.approvals.digest is 'Digest of the configuration that was approved.';
comment on column audit.approvals.machine_id is 'The machine it is for.';
comment on column audit.approvals.machine_name is 'Its name.';
comment on column audit.approvals.cluster is 'Its cluster.';
comment on column audit.approvals.approver_issuer is 'Who vouched for the approver.';
comment on column audit.approvals.approver_subject is 'Who approved.';
comment on column audit.approvals.approver_groups is 'The approver''s groups when it was given.';
comment on column audit.approvals.self is 'In which ways it is of the approver''s own: requester when the approver asked for it.';
comment on column audit.approvals.comment is 'What the approver wrote.';
comment on column audit.approvals.requester_issuer is 'Who vouched for who asked.';
comment on column audit.approvals.requester_subject is 'Who asked for the change.';
comment on column audit.approvals.requested_at is 'When.';
comment on column audit.approvals.change_state is 'Where the change stands now.';
comment on column audit.approvals.attempt_id is 'The attempt that spent the change.';
comment on column audit.approvals.revoked_at is 'When it, or the approver, was revoked, whichever came first; null when neither was.';
comment on column audit.approvals.revoked_by_issuer is 'Who vouched for who took the approval back; null when the approver was revoked instead.';
comment on column audit.approvals.revoked_by_subject is 'Who took the approval back.';
comment on column audit.approvals.revoked_reason is 'Why.';
comment on column audit.approvals.epoch is 'The epoch it was given in.';
comment on column audit.approvals.epoch_current is 'False when that epoch is over: the approval authorizes nothing.';
comment on column audit.approvals.decision_id is 'The entry of the approval.';
comment on column audit.approvals.revoked_decision_id is 'The entry of what took it back.';

comment on view audit.applies is 'One row per apply that was to be sent. Give a range of opened_at.';
comment on column audit.applies.opened_at is 'When the attempt was written, before its first byte was sent.';
comment on column audit.applies.closed_at is 'When it was closed; null while it may still land.';
comment on column audit.applies.attempt_id is 'The attempt.';
comment on column audit.applies.decision_id is 'The entry that allowed it.';
comment on column audit.applies.state is 'open, completed, rejected, not_sent, unresolved, failed or accounted.';
comment on column audit.applies.machine_id is 'The machine.';
comment on column audit.applies.machine_name is 'Its name.';
comment on column audit.applies.cluster is 'Its cluster.';
comment on column audit.applies.mode is 'Apply mode as talosctl spells it.';
comment on column audit.applies.change_id is 'The change it spent; null where the law asked for none.';
comment on column audit.applies.change is 'Its id as people type it.';
comment on column audit.applies.requester_issuer is 'Who vouched for who asked for the change.';
comment on column audit.applies.requester_subject is 'Who asked for the change; null where there is none.';
comment on column audit.applies.requested_at is 'When the change was captured or submitted.';
comment on column audit.applies.spender_issuer is 'Who vouched for who applied it.';
comment on column audit.applies.spender_subject is 'Who applied it.';
comment on column audit.applies.approvals_required is 'How many approvals the law asked for.';
comment on column audit.applies.approvals is 'Every approval given before, as JSON, those taken back included.';
comment on column audit.applies.approvers is 'Subjects of those whose approval was not taken back when it was opened.';
comment on column audit.applies.digest_before is 'Digest of the configuration active on the machine before.';
comment on column audit.applies.digest_before_persistent is 'Digest of the one on its disk before.';
comment on column audit.applies.digest_asked is 'Digest of the configuration that was to be applied.';
comment on column audit.applies.digest_after is 'Digest of the active configuration read back; null when nothing could be read.';
comment on column audit.applies.digest_after_persistent is 'Digest of the one on its disk read back.';
comment on column audit.applies.outcomes is 'Every outcome, oldest first, as JSON.';
comment on column audit.applies.answer is 'Name of the gRPC code of the node''s answer, or of our own words where none came.';
comment on column audit.applies.landed is 'What a person said, where one accounted for it.';
comment on column audit.applies.reason is 'Why it was closed, in words.';
comment on column audit.applies.closed_by is 'Subject or gateway that closed it.';
comment on column audit.applies.unresolved_at is 'When nobody knew what became of it; null when that never was.';
comment on column audit.applies.instance is 'The gateway that sent it.';
comment on column audit.applies.epoch is 'The epoch it belongs to.';
comment on column audit.applies.credential_version is 'Version of the Talos credential it was sent with; null when that came from files.';

comment on view audit.unresolved is 'Attempts that hold their machine now, and those that once were unresolved, with who accounted for them.';
comment on column audit.unresolved.opened_at is 'When the attempt was written.';
comment on column audit.unresolved.unresolved_at is 'Since when nobody knew what became of it; null while it is open.';
comment on column audit.unresolved.attempt_id is 'The attempt.';
comment on column audit.unresolved.decision_id is 'The entry that allowed it.';
comment on column audit.unresolved.state is 'Where it stands now.';
comment on column audit.unresolved.holds is 'True while the machine takes no other change because of it.';
comment on column audit.unresolved.machine_id is 'The machine.';
comment on column audit.unresolved.machine_name is 'Its name.';
comment on column audit.unresolved.cluster is 'Its cluster.';
comment on column audit.unresolved.digest is 'Digest of the configuration that was sent.';
comment on column audit.unresolved.change is 'The change it spent, as people type it.';
comment on column audit.unresolved.spender_issuer is 'Who vouched for who applied it.';
comment on column audit.unresolved.spender_subject is 'Who applied it.';
comment on column audit.unresolved.instance is 'The gateway that sent it.';
comment on column audit.unresolved.account_after is 'The first moment at which a person may account for it.';
comment on column audit.unresolved.accounted_at is 'When a person did.';
comment on column audit.unresolved.accounted_by_issuer is 'Who vouched for that person.';
comment on column audit.unresolved.accounted_by_subject is 'Who it was.';
comment on column audit.unresolved.accounted_reason is 'What that person said; read from the record.';
comment on column audit.unresolved.accounted_landed is 'Whether that person said that it landed.';
comment on column audit.unresolved.closed_at is 'When it was closed; null while it holds its machine.';
