select exists (select from control.bundle_signatures where revision = $1 and sha256(signatures) = $2 and sha256(manifest) = $3)
