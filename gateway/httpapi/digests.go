package httpapi

import (
	"time"

	"github.com/google/uuid"

	"bronzeward/gateway/control"
	"bronzeward/gateway/httpapi/api"
)

func (d *door) computeDigest(c *call) (answer, error) {
	if err := c.readRaw(); err != nil {
		return nil, err
	}
	if len(c.text) == 0 {
		return nil, malformed("the body is empty; it is the text of a configuration")
	}
	computed := func(of control.ComputedDigest) answer {
		body := api.ComputedDigest{Digest: of.Digest, Entry: of.EntryID.String()}
		if of.Under != nil {
			body.Under = &of.Under
		}
		return api.ComputeDigest201JSONResponse{Body: body}.VisitComputeDigestResponse
	}
	once, err := once(c, computed)
	if err != nil {
		return nil, err
	}
	done, err := d.Digests.ComputeDigest(c.ctx, c.by, c.text, once)
	if err != nil {
		return c.repeated(err, c.route.act, nil)
	}
	c.entry.fallback(done.EntryID)
	return computed(done), nil
}

func (d *door) listDigestKeys(c *call) (answer, error) {
	if err := c.onlyReads(actDigestKeysRead); err != nil {
		return nil, err
	}
	body := api.DigestKeyList{Items: []api.DigestKey{}}
	for _, k := range d.DigestKeys.ListDigestKeys() {
		body.Items = append(body.Items, api.DigestKey{Version: k.Version, UsedFrom: moment(k.UsableFrom)})
	}
	return api.ListDigestKeys200JSONResponse{Body: body}.VisitListDigestKeysResponse, nil
}

// moment is a time, or null when it was never set.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

func (d *door) addDigestKey(c *call) (answer, error) {
	if err := decode(c, &struct{}{}); err != nil {
		return nil, err
	}
	added := func(k control.AddedDigestKey) answer {
		return api.AddDigestKey201JSONResponse{Body: api.AddedDigestKey{
			Version: k.Version, UsedFrom: k.UsableFrom.UTC(), Entry: k.EntryID.String(),
		}}.VisitAddDigestKeyResponse
	}
	once, err := once(c, added)
	if err != nil {
		return nil, err
	}
	done, err := d.DigestKeys.AddDigestKey(c.ctx, c.by, once)
	if err != nil {
		// The key's row has no answer yet while it is carried out, and keeps none when the process ended then.
		return c.repeated(err, actDigestKeysRead, func(uuid.UUID) (answer, error) {
			return nil, conflict("BW-HTTP-409", "this request is being carried out, or was cut short", "bronzeward digest-keys list")
		})
	}
	c.entry.fallback(done.EntryID)
	return added(done), nil
}
