select a.id, m.name, a.state from control.attempts a join control.machines m on m.id = a.machine_id
where a.state in ('open', 'unresolved') order by m.name
