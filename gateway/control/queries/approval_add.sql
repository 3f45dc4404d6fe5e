insert into control.approvals (id, change_id, digest, epoch, issuer, subject, kind, groups, self, comment, entry_id, at)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
