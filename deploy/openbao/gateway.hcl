# What the gateway may do: no more than each line's sentence. Keys are never "create": a key
# that is missing is an error, and must not come into being by being used.

# Reads the Talos credential of each cluster, and which clusters there are.
path "bronzeward/metadata/talos/" { capabilities = ["list"] }
path "bronzeward/data/talos/+" { capabilities = ["read"] }

# Reads the wrapped digest keys and adds one to them; never makes the list anew.
path "bronzeward/data/digest-keys" { capabilities = ["read", "update"] }

# Reads the public certificates of the authority for people.
path "bronzeward/data/ca" { capabilities = ["read"] }

# Remembers the epoch and the book's head, outside of PostgreSQL.
path "bronzeward/data/anchor" { capabilities = ["create", "read", "update"] }

# Gets a data key for each change, and unwraps it to compare bytes before they are sent.
path "transit/datakey/plaintext/bronzeward-seal" { capabilities = ["update"] }
path "transit/decrypt/bronzeward-seal" { capabilities = ["update"] }
path "transit/keys/bronzeward-seal" { capabilities = ["read"] }

# Wraps and unwraps digest keys.
path "transit/encrypt/bronzeward-digest" { capabilities = ["update"] }
path "transit/decrypt/bronzeward-digest" { capabilities = ["update"] }
path "transit/keys/bronzeward-digest" { capabilities = ["read"] }

# Signs checkpoints of the book.
path "transit/sign/bronzeward-checkpoint" { capabilities = ["update"] }
path "transit/keys/bronzeward-checkpoint" { capabilities = ["read"] }

# Signs people's certificates.
path "transit/sign/bronzeward-ca/sha2-256" { capabilities = ["update"] }
path "transit/keys/bronzeward-ca" { capabilities = ["read"] }

# Its own token.
path "auth/token/lookup-self" { capabilities = ["read"] }
path "auth/token/renew-self" { capabilities = ["update"] }
path "auth/token/revoke-self" { capabilities = ["update"] }
path "sys/capabilities-self" { capabilities = ["update"] }
