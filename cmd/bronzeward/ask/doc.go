// Package ask is how commands ask a gateway: which gateway and as whom, by flags, environment and
// the client file; requests that are tried again under one key; and answers, with refusals read
// aloud.
package ask
