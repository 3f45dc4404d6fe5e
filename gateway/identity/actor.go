package identity

// Actor is who acts on Bronzeward itself, and from where.
type Actor struct {
	Caller Caller
	// Address is the client's IP, without port.
	Address string
}
