-- Saved laws whose revision begins so; two are enough to tell that it names none. $1: the beginning.
select revision, content
from control.bundles
where starts_with(revision, $1)
order by revision
limit 2
