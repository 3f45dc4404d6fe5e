package control

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
)

// channel is what acts that move the authority version notify. It is a hint: the truth is
// polled, and judged under the lock.
const channel = "bronzeward_authority"

// poll confirms the authority version again and again. A failure is not repeated in the log
// before it has changed into a success.
func (s *Store) poll() {
	tick := time.NewTicker(s.cfg.PollEvery)
	defer tick.Stop()
	silent := false
	for {
		select {
		case <-s.life.Done():
			return
		case <-tick.C:
		}
		_, err := s.Refresh(s.life, 0)
		switch {
		case err == nil && silent:
			s.log.Info("the authority version is confirmed again")
			silent = false
		case err != nil && !silent && s.life.Err() == nil && !errors.Is(err, ErrClosed):
			s.log.Warn("the authority version cannot be confirmed", "error", err)
			silent = true
		}
	}
}

// Hint has something in it after another process, or this one, said that the authority version
// moved; several hints may be one. It is for one reader, who asks Refresh for the truth.
func (s *Store) Hint() <-chan struct{} { return s.hints }

// hint asks for a refresh without waiting for it.
func (s *Store) hint() {
	_, _, _ = s.join(0)
	select {
	case s.hints <- struct{}{}:
	default: // one is waiting already
	}
}

// listenPause is between two tries to listen; polling goes on meanwhile.
const listenPause = time.Second

// listen waits for hints on a connection of its own.
func (s *Store) listen() {
	for s.life.Err() == nil {
		err := s.listenOnce()
		if s.life.Err() != nil {
			return
		}
		s.log.Debug("listening for authority changes ended", "error", err)
		select {
		case <-s.life.Done():
		case <-time.After(listenPause):
		}
	}
}

func (s *Store) listenOnce() error {
	conn, err := pgx.ConnectConfig(s.life, s.pool.Config().ConnConfig)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = conn.Close(ctx)
	}()
	if _, err := conn.Exec(s.life, "listen "+channel); err != nil {
		return err
	}
	for {
		// What was said before LISTEN took hold is found by this.
		s.hint()
		if _, err := conn.WaitForNotification(s.life); err != nil {
			return err
		}
	}
}
