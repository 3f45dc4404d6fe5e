select c.rollout_limit
from control.clusters c
where c.name = (select m.cluster from control.machines m where m.id = $1)
for update
