select anchor_version from control.recovery
