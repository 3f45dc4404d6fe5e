with moved as (
    update control.live_bundle
    set revision = $1, counter = $2
    where counter < $2
    returning counter
)
insert into control.bundle_activations (counter, revision, entry_id)
select counter, $1, $3 from moved
