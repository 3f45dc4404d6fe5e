package tree

import (
	"context"
	"fmt"
	"sync"
)

// maxUnpublished bounds what waits for one publisher.
const maxUnpublished = 16

// publisher takes checkpoints to one place, in its own goroutine: a slow place holds up nothing else.
type publisher struct {
	Publisher
	q    *Sequencer
	wake chan struct{} // has room for one

	mu      sync.Mutex
	waiting []Stored // guarded by mu; in the order of being stored
}

// publish hands a checkpoint to every publisher.
func (q *Sequencer) publish(s Stored) {
	for _, p := range q.publishers {
		p.mu.Lock()
		p.waiting = append(p.waiting, s)
		if len(p.waiting) > maxUnpublished {
			p.waiting = p.waiting[len(p.waiting)-1:]
		}
		p.mu.Unlock()
		select {
		case p.wake <- struct{}{}:
		default:
		}
	}
}

// run calls Publish until ctx ends. If the process ends before Publish returned, the next holder calls it with the last
// stored checkpoint.
func (p *publisher) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
		}
		for ctx.Err() == nil {
			next, ok := p.next(false)
			if !ok {
				break
			}
			err := p.Publish(ctx, next)
			for err != nil && ctx.Err() == nil {
				p.q.done(ctx, p.step(), fmt.Errorf("publishing a checkpoint (%s): %w", p.Name, err))
				pause(ctx, p.q.cfg.RetryEvery)
				if newest, ok := p.next(true); ok {
					next = newest
				}
				if ctx.Err() == nil {
					err = p.Publish(ctx, next)
				}
			}
			p.q.done(ctx, p.step(), err)
			p.q.cfg.pause("published")
		}
	}
}

// step is the publisher's name in the Status.
func (p *publisher) step() Step { return StepPublish + Step(" "+p.Name) }

// next takes the oldest that waits, or the newest and lets go of the others.
func (p *publisher) next(newest bool) (Stored, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.waiting) == 0 {
		return Stored{}, false
	}
	if newest {
		p.waiting = p.waiting[len(p.waiting)-1:]
	}
	s := p.waiting[0]
	p.waiting = p.waiting[1:]
	return s, true
}
