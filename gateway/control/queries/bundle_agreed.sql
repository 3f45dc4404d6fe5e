select issuer, subject, groups, at
from control.bundle_agreed($1)
order by at, issuer, subject
