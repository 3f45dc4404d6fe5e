select count(*) from control.bundle_signatures where revision = $1
