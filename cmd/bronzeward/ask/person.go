package ask

import (
	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/gateway/httpapi/api"
)

// Person is somebody as a sentence names them.
func Person(p api.Person) string { return cli.ASCII(p.Subject) + " of " + cli.ASCII(p.Issuer) }

// Subject is somebody as a column names them.
func Subject(p api.Person) string { return cli.Clip(cli.ASCII(p.Subject), MostSubject) }

// MostSubject is how many characters of a name a column shows; -o json has all.
const MostSubject = 40
