select version, sha256 from control.schema_checksums
