select current_setting('server_version_num')::int, current_setting('fsync'), current_setting('full_page_writes'),
    (select count(*) from pg_stat_replication where sync_state is distinct from 'sync' and sync_state is distinct from 'quorum')
