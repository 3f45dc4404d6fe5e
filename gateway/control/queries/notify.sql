select pg_notify('bronzeward_authority', '')
