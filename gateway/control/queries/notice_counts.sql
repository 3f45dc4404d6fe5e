-- Dead ones count for as long as somebody should still be told: while their change waits.
select
    (select count(*) from control.notices where state = 'waiting'),
    (select count(*) from control.notices n join control.change_states s on s.change_id = n.change_id
        where n.state = 'dead' and s.state = 'waiting')
