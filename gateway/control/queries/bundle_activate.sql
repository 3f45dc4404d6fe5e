with live as (select counter from control.live_bundle)
insert into control.bundle_activations (counter, revision, entry_id, way, follows, signed_counter, required, issuer, subject)
select live.counter + 1, $1, $2, $3, live.counter, $4, $5, $6, $7 from live
returning counter
