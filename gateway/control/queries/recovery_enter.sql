insert into control.recoveries (epoch, old_epoch, old_size, old_root, cause, lost_rows, lost_from, lost_until, lost_revocations, revocations,
    approvals_voided, changes_ended, issuer, subject, reason, entry_id, entered_at)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)
