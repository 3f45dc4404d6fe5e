package identity

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// The URIs a person's certificate carries as subject alternative names.
const (
	sanScheme   = "bronzeward"
	sanIdentity = "identity"
	sanGroup    = "group"
)

// IdentityURI is the name that makes a certificate a person's: exactly one of it, with form-encoded values, as in
// bronzeward://identity?issuer=https%3A%2F%2Fidp.example&kind=human&subject=ada.
func IdentityURI(issuer, subject string, kind Kind) *url.URL {
	query := url.Values{"issuer": {issuer}, "subject": {subject}, "kind": {string(kind)}}
	return &url.URL{Scheme: sanScheme, Host: sanIdentity, RawQuery: query.Encode()}
}

// GroupURI is the name that puts the person into one group: bronzeward://group/ and the path-escaped group.
func GroupURI(group string) *url.URL {
	return &url.URL{Scheme: sanScheme, Host: sanGroup, Path: "/" + group, RawPath: "/" + url.PathEscape(group)}
}

// named is the identity in a certificate's URIs.
type named struct {
	issuer, subject string
	kind            Kind
	groups          []string
}

// readURIs takes the identity out of a certificate's URIs. URIs of other schemes are not ours and are passed over; one of
// ours that is not understood refuses the certificate. Errors quote nothing.
func readURIs(uris []*url.URL) (named, error) {
	var result named
	identities := 0
	for _, uri := range uris {
		if !strings.EqualFold(uri.Scheme, sanScheme) {
			continue
		}
		var err error
		switch {
		case uri.Opaque != "" || uri.User != nil || uri.Fragment != "" || uri.RawFragment != "":
			err = errors.New("a bronzeward name is not understood")
		case uri.Host == sanIdentity:
			identities++
			err = result.readIdentity(uri)
		case uri.Host == sanGroup:
			err = result.readGroup(uri)
		default:
			err = errors.New("a bronzeward name is not understood")
		}
		if err != nil {
			return named{}, err
		}
	}
	if identities != 1 {
		return named{}, fmt.Errorf("it has %d bronzeward://identity names, must have one", identities)
	}
	if len(result.groups) > maxGroups {
		return named{}, errors.New("it has more than 1000 groups")
	}
	slices.Sort(result.groups)
	result.groups = slices.Compact(result.groups)
	return result, nil
}

func (n *named) readIdentity(uri *url.URL) error {
	query, err := url.ParseQuery(uri.RawQuery)
	if err != nil || uri.Path != "" || len(query) != 3 {
		return errors.New("its identity name is not understood")
	}
	for _, key := range []string{"issuer", "subject", "kind"} {
		if len(query[key]) != 1 {
			return errors.New("its identity name must have issuer, subject and kind once each")
		}
	}
	n.issuer, n.subject, n.kind = query["issuer"][0], query["subject"][0], Kind(query["kind"][0])
	if err := checkText(n.issuer); err != nil {
		return fmt.Errorf("its issuer %w", err)
	}
	if err := checkText(n.subject); err != nil {
		return fmt.Errorf("its subject %w", err)
	}
	if n.kind != KindHuman && n.kind != KindAutomation {
		return errors.New("its kind is neither human nor automation")
	}
	return nil
}

func (n *named) readGroup(uri *url.URL) error {
	escaped, ok := strings.CutPrefix(uri.EscapedPath(), "/")
	if !ok || uri.RawQuery != "" || uri.ForceQuery || strings.Contains(escaped, "/") {
		return errors.New("a group name is not understood")
	}
	group, err := url.PathUnescape(escaped)
	if err != nil {
		return errors.New("a group name is not understood")
	}
	if err := checkText(group); err != nil {
		return fmt.Errorf("a group %w", err)
	}
	n.groups = append(n.groups, group)
	return nil
}
