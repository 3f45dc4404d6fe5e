select counter from control.live_bundle
