update control.live_bundle set revision = $1, counter = $2 where counter < $2
