-- The revision that is live; empty when none is.
select coalesce(revision, '') from control.live_bundle
