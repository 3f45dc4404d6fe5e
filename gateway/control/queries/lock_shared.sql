select control.lock_authority_shared()
