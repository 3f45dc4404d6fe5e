# For who brings a cluster's Talos credential: bronzeward openbao put-credential, or bao kv put.
path "bronzeward/data/talos/+" { capabilities = ["create", "read", "update"] }
path "bronzeward/metadata/talos/+" { capabilities = ["read"] }
# Public certificates: a cluster's CA must not be the one that signs people's.
path "bronzeward/data/ca" { capabilities = ["read"] }
path "bronzeward/metadata/talos/" { capabilities = ["list"] }
