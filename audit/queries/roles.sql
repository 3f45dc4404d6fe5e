do $$
declare
    name text;
begin
    foreach name in array array['bronzeward_owner', 'bronzeward_gateway', 'bronzeward_auditor'] loop
        if not exists (select from pg_catalog.pg_roles where rolname = name) then
            begin
                execute format('create role %I nologin', name);
            exception when duplicate_object or unique_violation then
                null; -- roles belong to the whole server: a migration of another database made it in this moment
            end;
        end if;
    end loop;
    -- audit_gate holds what only the owner may lock: nobody else may use it.
    foreach name in array array['audit', 'audit_gate'] loop
        if pg_catalog.to_regnamespace(name) is null then
            begin
                execute format('create schema %I authorization bronzeward_owner', name);
            exception when duplicate_schema or unique_violation then
                null;
            end;
        end if;
    end loop;
end
$$
