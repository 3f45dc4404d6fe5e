select
    (select count(*) from control.notices where state = 'waiting'),
    (select count(*) from control.notices where state = 'dead')
