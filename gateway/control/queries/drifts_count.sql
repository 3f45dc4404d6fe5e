select count(*) from control.drifts where state = 'open'
