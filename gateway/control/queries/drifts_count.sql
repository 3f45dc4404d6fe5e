-- Nobody can settle, or wait for, one of a machine that never comes back.
select count(*) from control.drifts d
where d.state = 'open' and not exists (select from control.retirements r where r.machine_id = d.machine_id)
