-- Attempts that may still land; those of a retired machine hold nobody up.
select a.id, m.name, a.state from control.attempts a join control.machines m on m.id = a.machine_id
where a.state in ('open', 'unresolved') and not exists (select from control.retirements x where x.machine_id = m.id)
order by m.name
