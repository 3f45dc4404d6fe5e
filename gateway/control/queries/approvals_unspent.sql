-- Approvals that count for a change that may still be applied.
select count(*) from control.approval_rows a join control.change_states s on s.change_id = a.change_id
where s.state in ('waiting', 'approved') and not a.revoked
