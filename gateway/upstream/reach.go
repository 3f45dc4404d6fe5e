package upstream

import (
	"context"
	"errors"
)

// Reach opens a sending connection and reads the Evidence over it, going through the
// addresses until one leads to the machine with t.NodeID. An address behind which
// another machine answers is passed over, because addresses are lent out again; when all
// of them lead elsewhere, the last one's connection and Evidence come back without an
// error, so that the mismatch is judged and recorded like any other fact. With an empty
// NodeID the first machine that proves itself is taken.
//
// Evidence.Address tells which address it was; the error names all that were tried.
func (p *Pool) Reach(ctx context.Context, t Target) (*SendingConn, Evidence, error) {
	addresses, err := t.validate(p.cfg.Port)
	if err != nil {
		return nil, Evidence{}, err
	}

	var (
		tried  []error
		class  = ClassUnreachable
		other  *SendingConn
		others Evidence
	)

	for i := range addresses {
		one := t
		one.Addresses = addresses[i : i+1]

		c, e, err := p.reachOne(ctx, one)
		switch {
		case OurCredential(err):
			// It is the same for every address; no machine is to be blamed.
			if other != nil {
				_ = other.Close()
			}

			return nil, Evidence{}, err
		case err != nil:
			tried = append(tried, err)
			if got := ClassOf(err); got != "" && got != ClassUnreachable {
				class = got
			}
		case t.NodeID == "" || e.NodeID == t.NodeID:
			if other != nil {
				_ = other.Close()
			}

			c.target = t

			return c, e, nil
		default:
			if other != nil {
				_ = other.Close()
			}

			other, others = c, e
		}

		if ctx.Err() != nil {
			break
		}
	}

	if other != nil {
		other.target = t

		return other, others, nil
	}

	if len(tried) == 1 {
		return nil, Evidence{}, tried[0]
	}

	return nil, Evidence{}, &Error{Class: class, Err: errors.Join(tried...)}
}

func (p *Pool) reachOne(ctx context.Context, t Target) (*SendingConn, Evidence, error) {
	c, err := p.Open(ctx, t)
	if err != nil {
		return nil, Evidence{}, err
	}

	e, err := c.Evidence(ctx)
	if err != nil {
		_ = c.Close()

		return nil, Evidence{}, err
	}

	return c, e, nil
}
