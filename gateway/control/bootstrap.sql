do $$
declare
    name text;
begin
    foreach name in array array['control', 'control_gate'] loop
        if pg_catalog.to_regnamespace(name) is null then
            begin
                execute format('create schema %I authorization bronzeward_owner', name);
            exception when duplicate_schema or unique_violation then
                null; -- another migration made it in this moment
            end;
        end if;
    end loop;
end
$$
