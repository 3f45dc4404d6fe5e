-- What each column means, for whoever reads the book with SQL alone.

comment on schema audit is 'The book: every decision and what came of it. Append-only.';

comment on table audit.entries is 'One row per decision. record is the truth; the other columns are projections of it, cut to 512 bytes.';
comment on column audit.entries.recorded_at is 'Database clock when the row was inserted (not when it was committed).';
comment on column audit.entries.id is 'UUIDv7 of the decision, as shown to the caller.';
comment on column audit.entries.kind is 'rpc: a call to the Talos API; http: an act on Bronzeward; policy: a bundle; system: the gateway itself.';
comment on column audit.entries.verdict is 'allow and deny are the policy''s; refuse is no policy verdict (bad credential, outage, malformed request).';
comment on column audit.entries.method is 'Full gRPC method, or the act ("machines.pin").';
comment on column audit.entries.class is 'Class of the method, or of the refusal.';
comment on column audit.entries.mode is 'Apply mode as talosctl spells it.';
comment on column audit.entries.dry_run is 'True when the call asked to change nothing.';
comment on column audit.entries.caller_issuer is 'Who vouched for the caller; null when nobody was proven.';
comment on column audit.entries.caller_subject is 'The caller''s subject at that issuer, from the verified credential only.';
comment on column audit.entries.caller_kind is 'human or automation.';
comment on column audit.entries.proof is 'certificate, token or certificate+token.';
comment on column audit.entries.client_address is 'Address the connection came from; "other" when refusals of many addresses share the row.';
comment on column audit.entries.machine_id is 'The target''s row in control.machines.';
comment on column audit.entries.machine_name is 'The target''s name when it was judged.';
comment on column audit.entries.cluster is 'The target''s cluster.';
comment on column audit.entries.digest is 'Digest of the configuration asked for, with scheme and key version.';
comment on column audit.entries.base_digest is 'Digest of the configuration active on the machine when it was judged.';
comment on column audit.entries.persistent_digest is 'Digest of the configuration on the machine''s disk when it was judged.';
comment on column audit.entries.change_id is 'The Change the call was or became.';
comment on column audit.entries.attempt_id is 'The Attempt this decision opened.';
comment on column audit.entries.epoch is 'The epoch the decision belongs to.';
comment on column audit.entries.authority_version is 'The authority version it was judged at; 0 when nothing was judged.';
comment on column audit.entries.policy_revision is 'SHA-256 of the bundle that judged; null when none did.';
comment on column audit.entries.codes is 'Codes of all reasons, in order.';
comment on column audit.entries.instance is 'The gateway that wrote the row.';
comment on column audit.entries.count is 'How many refusals the row stands for; 1 for everything else.';
comment on column audit.entries.record is 'Canonical bytes: compact JSON with a fixed field order, "v":1 first; facts and reasons are in here only.';
comment on column audit.entries.leaf is 'audit.leaf(record, recorded_at), computed by the database.';

comment on table audit.outcomes is 'Append-only facts about an entry or its attempt. record is the truth; the other columns are projections of it.';
comment on column audit.outcomes.recorded_at is 'Database clock when the row was inserted.';
comment on column audit.outcomes.id is 'UUIDv7 of the outcome.';
comment on column audit.outcomes.entry_id is 'The entry it is about.';
comment on column audit.outcomes.attempt_id is 'The attempt it is about; null for calls without one.';
comment on column audit.outcomes.kind is 'answered, unanswered, read-back, state, accounted or late-landing.';
comment on column audit.outcomes.state is 'The attempt''s state after it.';
comment on column audit.outcomes.code is 'Name of the gRPC code.';
comment on column audit.outcomes.digest is 'Digest of the active configuration read back.';
comment on column audit.outcomes.persistent_digest is 'Digest of the persistent configuration read back.';
comment on column audit.outcomes.caller_issuer is 'Issuer of the person who accounted.';
comment on column audit.outcomes.caller_subject is 'Subject of the person who accounted.';
comment on column audit.outcomes.duration_us is 'How long the call took, in microseconds.';
comment on column audit.outcomes.bytes_out is 'Bytes of the answer sent to the caller.';
comment on column audit.outcomes.instance is 'The gateway that wrote the row.';
comment on column audit.outcomes.record is 'Canonical bytes, as in entries; the message is in here only.';
comment on column audit.outcomes.leaf is 'audit.leaf(record, recorded_at), computed by the database.';

comment on table audit.unsequenced is 'Rows of entries and outcomes that have no place in the tree yet.';
comment on column audit.unsequenced.recorded_at is 'recorded_at of the row.';
comment on column audit.unsequenced.id is 'id of the row.';
comment on column audit.unsequenced.source is 'entry or outcome: the table the row is in.';

comment on table audit.schema_checksums is 'SHA-256 of every migration that made this schema.';
comment on column audit.schema_checksums.version is 'Number of the migration.';
comment on column audit.schema_checksums.name is 'File name of the migration.';
comment on column audit.schema_checksums.sha256 is 'SHA-256 of the file.';
comment on column audit.schema_checksums.applied_at is 'When it was noted.';
