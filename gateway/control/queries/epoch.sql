select i.id, i.epoch, control.recovery_state(), r.message from control.installation i, control.recovery r
