do $$
begin
    if pg_catalog.to_regnamespace('control') is null then
        begin
            create schema control authorization bronzeward_owner;
        exception when duplicate_schema or unique_violation then
            null; -- another migration made it in this moment
        end;
    end if;
end
$$
