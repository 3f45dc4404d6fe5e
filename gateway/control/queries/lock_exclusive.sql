select control.lock_authority()
