package house

import (
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"bronzeward/audit/tree"
	"bronzeward/cmd/bronzeward/config"
	"bronzeward/gateway"
	"bronzeward/gateway/control"
	"bronzeward/gateway/vault"
	"bronzeward/policy"
)

// sequencing keeps a sequencer of the book alive. Every replica has one, and one of them works. Its
// end is not the gateway's: rows are durable without a place, and get it from whoever goes on.
type sequencing struct {
	config tree.Config
	watch  *gateway.BookTree
	log    *slog.Logger
	pause  time.Duration // the first one between two starts
}

// Pauses between two starts of a sequencer that ended; they double.
const (
	firstRestart = time.Second
	mostRestart  = time.Minute
)

// newSequencing builds it from the configuration. Without OpenBao nothing is signed, and nothing
// outside of the database remembers the book: that is said once.
func newSequencing(c *config.Config, store *control.Store, held *keys, compared *comparing, watch *gateway.BookTree, log *slog.Logger) (*sequencing, error) {
	s := &sequencing{watch: watch, log: log, pause: firstRestart, config: tree.Config{
		Connect: func(ctx context.Context) (*pgx.Conn, error) { return connectSequencer(ctx, store, c.Instance) },
		Epoch: func(ctx context.Context, conn *pgx.Conn) (installation, epoch uuid.UUID, err error) {
			return control.ReadEpoch(ctx, conn)
		},
		CheckpointEvery: c.Book.CheckpointEvery, Logger: log, Observe: tree.Observe{Failed: watch.Failed},
	}}
	if held.signer != nil {
		s.config.Signer = containedSigner{held.signer, log}
	} else {
		log.Warn("without OpenBao the book is sequenced and not signed, and nothing outside of the database remembers it: for development only")
	}
	if compared != nil {
		s.config.Permit = compared.permit
	}
	if held.anchors != nil {
		s.config.Publish = append(s.config.Publish, tree.Publisher{Name: "anchor", Publish: contained(log, anchorPublisher{held.anchors, store}.Publish)})
	}
	if c.Book.CheckpointFolder != "" {
		s.config.Publish = append(s.config.Publish, tree.Publisher{Name: "folder", Publish: contained(log, checkpointFolder{c.Path(c.Book.CheckpointFolder)}.Publish)})
	}
	return s, s.config.Validate()
}

// connectSequencer opens a connection beside the pool: the lock lives as long as it does.
func connectSequencer(ctx context.Context, store *control.Store, instance string) (*pgx.Conn, error) {
	conf := store.Pool().Config().ConnConfig.Copy()
	conf.RuntimeParams["application_name"] = "bronzeward sequencer " + instance
	return pgx.ConnectConfig(ctx, conf)
}

// run sequences until ctx ends. What ends a sequencer otherwise is logged, and another is started.
func (s *sequencing) run(ctx context.Context) {
	look := time.NewTicker(time.Second)
	defer look.Stop()
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.Multiplier, pauses.MaxInterval = s.pause, 2, mostRestart
	_, _ = backoff.Retry(ctx, func() (struct{}, error) { // it ends with ctx alone
		began := time.Now()
		err := s.once(ctx, look.C)
		if ctx.Err() != nil {
			return struct{}{}, nil
		}
		if time.Since(began) > mostRestart {
			pauses.Reset()
		}
		s.watch.Failed("restart")
		s.log.ErrorContext(ctx, "the book's sequencer ended, and is started again", slog.Any("cause", err))
		return struct{}{}, err
	}, backoff.WithBackOff(pauses), backoff.WithMaxElapsedTime(0))
}

// errEnded is a sequencer that ended by itself.
var errEnded = errors.New("it ended by itself")

// once runs one sequencer to its end.
func (s *sequencing) once(ctx context.Context, look <-chan time.Time) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sequencer, err := tree.New(s.config)
	if err != nil {
		return err
	}
	s.watch.Follow(sequencer)
	ended := make(chan error, 1)
	go func() { ended <- recovered(s.log, func() error { return sequencer.Run(ctx) }) }()
	for {
		select {
		case <-look:
			s.watch.Look()
		case err := <-ended:
			if err == nil {
				err = errEnded
			}
			return err
		}
	}
}

// recovered turns a panic into an error; the log has its stack.
func recovered(log *slog.Logger, do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("it panicked: %s", policy.PanicText(p))
			log.Error("a part of the book's sequencer panicked", slog.Any("cause", err), slog.String("stack", string(debug.Stack())))
		}
	}()
	return do()
}

// contained keeps a panic of a publisher, which runs in a goroutine of its own, from ending the
// process: it is a failure like any other.
func contained(log *slog.Logger, publish func(context.Context, tree.Stored) error) func(context.Context, tree.Stored) error {
	return func(ctx context.Context, s tree.Stored) error {
		return recovered(log, func() error { return publish(ctx, s) })
	}
}

// containedSigner does the same for the signer.
type containedSigner struct {
	tree.Signer
	log *slog.Logger
}

// Sign implements tree.Signer.
func (c containedSigner) Sign(ctx context.Context, message []byte) (signature []byte, version int, err error) {
	err = recovered(c.log, func() (err error) {
		signature, version, err = c.Signer.Sign(ctx, message)
		return err
	})
	return signature, version, err
}

// PublicKeys implements tree.Signer.
func (c containedSigner) PublicKeys(ctx context.Context) (keys map[int]ed25519.PublicKey, err error) {
	err = recovered(c.log, func() (err error) {
		keys, err = c.Signer.PublicKeys(ctx)
		return err
	})
	return keys, err
}

// anchorPublisher has OpenBao remember each checkpoint, and with it how far authority is: what an
// act could not tell is healed here.
type anchorPublisher struct {
	anchors anchors
	store   *control.Store
}

// Publish implements tree.Publisher.
func (a anchorPublisher) Publish(ctx context.Context, s tree.Stored) error {
	snap, err := a.store.Refresh(ctx, 0)
	if err != nil {
		snap = a.store.Snapshot() // what it knew last is true all the same
	}
	switch {
	case snap.Epoch != s.Epoch && err != nil:
		return err
	case snap.Epoch != s.Epoch:
		return nil // a last head of the epoch before: the anchor keeps what it was told of that
	}
	_, err = a.anchors.Forward(ctx, func(there *vault.Anchor) {
		setAuthority(there, snap)
		there.Epoch, there.Size, there.Root = s.Epoch.String(), s.Size, hex.EncodeToString(s.Root[:])
	})
	return err
}
