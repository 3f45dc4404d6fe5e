package vault

import (
	"context"
	"crypto/x509"
	"fmt"
	"time"
)

// Held looks at what KV holds and setup does not make: the Talos credential of each cluster, and
// the anchor. Do does nothing for these steps. parse is as for Credentials, with people's
// authorities beside it. What the token may not read is StateUnknown; any other error is an *Error.
func Held(ctx context.Context, c *Client, parse ParseCredential, people []*x509.Certificate) ([]Step, error) {
	steps, err := credentialSteps(ctx, c, parse, people)
	if err != nil {
		return nil, err
	}
	anchor := Step{What: fmt.Sprintf("anchor of the book, at %s/%s", c.kv, PathAnchor), State: StateGood}
	there, version, err := NewAnchors(c).Read(ctx)
	was, asked := c.everWas(ctx, planning, PathAnchor)
	switch {
	case kindOf(err) == KindForbidden, kindOf(asked) == KindForbidden:
		anchor.State, anchor.Detail = StateUnknown, "your token may not read it"
	case kindOf(err) == KindMalformed:
		anchor.State, anchor.Detail = StateWrong, "it has another shape: bring back the version before (bao kv rollback)"
	case err != nil:
		return nil, err
	case asked != nil:
		return nil, asked
	case version > 0:
		anchor.Detail = fmt.Sprintf("epoch %s, size %d, authority version %d", there.Epoch, there.Size, there.AuthorityVersion)
	case was:
		anchor.State, anchor.Detail = StateWrong, c.deletedSentence(ctx, PathAnchor)
	default:
		anchor.Detail = "none yet: the first gateway to start writes it"
	}
	return append(steps, anchor), nil
}

func credentialSteps(ctx context.Context, c *Client, parse ParseCredential, people []*x509.Certificate) ([]Step, error) {
	clusters, err := c.list(ctx, planning, PathTalos)
	all := fmt.Sprintf("Talos credentials, at %s/%s", c.kv, PathTalos)
	switch {
	case kindOf(err) == KindForbidden:
		return []Step{{What: all, State: StateUnknown, Detail: "your token may not list them"}}, nil
	case err != nil:
		return nil, err
	case len(clusters) == 0:
		return []Step{{What: all, State: StateMissing, Detail: "there is none: bronzeward openbao put-credential --cluster NAME"}}, nil
	}
	var steps []Step
	for _, cluster := range clusters {
		step := Step{What: fmt.Sprintf("Talos credential, at %s/%s/%s", c.kv, PathTalos, cluster), State: StateGood}
		if !clusterName.MatchString(cluster) {
			step.State, step.Detail = StateWrong, "it is no name of a cluster, and is not read"
			steps = append(steps, step)
			continue
		}
		again := "bronzeward openbao put-credential --cluster " + cluster
		var secret talosSecret
		version, err := c.get(ctx, planning, PathTalos+"/"+cluster, &secret)
		switch kindOf(err) {
		case KindForbidden:
			step.State, step.Detail = StateUnknown, "your token may not read it"
		case KindMissing:
			step.State, step.Detail = StateMissing, fmt.Sprintf("it was deleted: %s; or forget the cluster: bao kv metadata delete -mount=%s %s/%s", again, c.kv, PathTalos, cluster)
		case KindMalformed:
			step.State, step.Detail = StateWrong, "it has another shape: "+again
		default:
			if err != nil {
				return nil, err
			}
			one, err := parse([]byte(secret.Certificate), []byte(secret.Key), []byte(secret.CA))
			if err == nil {
				err = CheckPeoplesCA(one.CAs, people)
			}
			step.Detail = fmt.Sprintf("version %d", version)
			if err != nil {
				step.State, step.Detail = StateWrong, fmt.Sprintf("version %d cannot be used: %v: %s", version, err, again)
			} else if leaf, err := x509.ParseCertificate(one.Certificate.Certificate[0]); err == nil {
				step.Detail += ", its certificate ends " + leaf.NotAfter.UTC().Format(time.RFC3339)
			}
		}
		steps = append(steps, step)
	}
	return steps, nil
}
