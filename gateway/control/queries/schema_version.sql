select version from control.schema_version
