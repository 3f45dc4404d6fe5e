create table if not exists control.schema_checksums (
    version integer not null,
    name text not null,
    sha256 text not null,
    applied_at timestamptz not null default clock_timestamp(),
    constraint schema_checksums_pkey primary key (version),
    constraint schema_checksums_shape check (sha256 ~ '^[0-9a-f]{64}$')
)
