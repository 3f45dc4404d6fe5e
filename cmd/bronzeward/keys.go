package main

import "bronzeward/gateway/vault"

func checkCredential(vault.Credential) error { return nil }
