insert into control.bundle_signatures (revision, key_id, counter, signatures, manifest, entry_id)
values ($1, $2, $3, $4, $5, $6)
on conflict (revision, sha256(signatures), sha256(manifest)) do nothing
