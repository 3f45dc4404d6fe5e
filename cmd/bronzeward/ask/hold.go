package ask

import (
	"fmt"

	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/gateway/httpapi/api"
)

// Hold says what holds a machine: its kind and id, whose it is, since when, and why.
func Hold(h api.Hold) string {
	id := h.ID
	if h.Kind == api.HoldKindRecovery {
		id = "of epoch " + id
	}
	text := fmt.Sprintf("%s %s of %s since %s", h.Kind, id, Person(h.Holder), cli.Stamp(&h.Since))
	if h.Holder.Subject == "" { // a drift is nobody's
		text = fmt.Sprintf("%s %s since %s", h.Kind, id, cli.Stamp(&h.Since))
	}
	if h.Reason != "" {
		text += ": " + h.Reason
	}
	return text
}
