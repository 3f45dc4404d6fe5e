# For who brings a cluster's Talos credential: bronzeward openbao put-credential, or bao kv put.
path "bronzeward/data/talos/+" { capabilities = ["create", "read", "update"] }
path "bronzeward/metadata/talos/+" { capabilities = ["read"] }
path "bronzeward/metadata/talos/" { capabilities = ["list"] }
