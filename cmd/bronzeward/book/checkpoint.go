package book

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"bronzeward/audit/tree"
	"bronzeward/cmd/bronzeward/cli"
)

type checkpointCmd struct {
	ReachFlags
	PublicKey string        `placeholder:"FILE" help:"Public keys of the checkpoints, as \"bronzeward openbao checkpoint-key --public-key\" prints them. Without them the signature is not checked."`
	Keep      string        `placeholder:"FILE" help:"Keep the checkpoint in this file: the one that is there must be shown to be a beginning of the new one, or the book was rolled back or forked."`
	Follow    bool          `short:"f" help:"Go on keeping the newest, until interrupted, or until the book was rolled back or forked."`
	Every     time.Duration `default:"10s" help:"With --follow: how often to look."`
}

// heads gives checkpoints: the book's database, or whoever else has it.
type heads interface {
	// newest is the newest checkpoint of the newest tree that has one; tree.ErrNotFound if none has.
	newest(ctx context.Context) (tree.Stored, error)
	// last is the newest checkpoint of the tree with the origin; tree.ErrNotFound if there is none.
	last(ctx context.Context, origin string) (tree.Stored, error)
	// consistency is the proof that the tree at one size begins with it at another. An error with errUnasked in its chain, or
	// a cli.UnavailableError, says that the question was not answered; any other one that there is no such proof.
	consistency(ctx context.Context, of tree.Stored, older int64) (tlog.TreeProof, error)
}

// errUnasked is in the chain of the error for a question that was refused, which shows nothing about the book.
var errUnasked = errors.New("whether the book only grew was not answered")

type databaseHeads struct{ pool *pgxpool.Pool }

func (d databaseHeads) find(ctx context.Context, match func(tree.Tree) bool) (tree.Stored, error) {
	list, err := tree.Trees(ctx, d.pool)
	if err != nil {
		return tree.Stored{}, away(err)
	}
	for i := len(list) - 1; i >= 0; i-- {
		if !match(list[i]) {
			continue
		}
		s, err := tree.Latest(ctx, d.pool, list[i].Tree)
		switch {
		case errors.Is(err, tree.ErrNotFound):
			continue
		case errors.Is(err, tree.ErrCheckpoint):
			return s, cli.NotWhole(err)
		}
		return s, away(err)
	}
	return tree.Stored{}, tree.ErrNotFound
}

func (d databaseHeads) newest(ctx context.Context) (tree.Stored, error) {
	return d.find(ctx, func(tree.Tree) bool { return true })
}

func (d databaseHeads) last(ctx context.Context, origin string) (tree.Stored, error) {
	return d.find(ctx, func(t tree.Tree) bool { return t.Origin == origin })
}

func (d databaseHeads) consistency(ctx context.Context, of tree.Stored, older int64) (tlog.TreeProof, error) {
	p, err := tree.Consistency(ctx, d.pool, of.Tree, older, of.Size)
	if errors.Is(err, tree.ErrMissing) {
		return p, err
	}
	return p, away(err)
}

// keeper keeps the newest checkpoint in a file.
type keeper struct {
	g     *cli.Globals
	where heads
	keys  note.Verifiers // null: signatures are not checked
	file  string         // empty: nothing is kept
	said  string         // the trouble that was told last
	shown []byte         // the note printed last
}

// Run prints the newest checkpoint, keeps it, and follows.
func (c *checkpointCmd) Run(ctx context.Context, g *cli.Globals, from Settings) error {
	if c.Follow && c.Keep == "" {
		return cli.Usage(errors.New("--follow keeps checkpoints: say where, with --keep FILE"))
	}
	if c.Follow && g.Output == "yaml" {
		return cli.Usage(errors.New("-o yaml: a list that goes on has no end to write; -o json prints one checkpoint after the other"))
	}
	if c.Every <= 0 {
		return cli.Usage(fmt.Errorf("--every %s is no time to wait", c.Every))
	}
	keys, err := publicKeys(g, c.PublicKey)
	if err != nil {
		return err
	}
	pool, client, closing, err := c.reach(ctx, g, from)
	if err != nil {
		return err
	}
	defer closing()
	var where heads = databaseHeads{pool}
	if client != nil {
		where = gatewayHeads{client}
	}
	if keys == nil {
		fmt.Fprintln(g.ErrOut, "the signature is NOT checked: give --public-key FILE")
	}
	k := &keeper{g: g, where: where, keys: keys, file: c.Keep}
	return k.run(ctx, c.Follow, c.Every)
}

func (k *keeper) run(ctx context.Context, follow bool, every time.Duration) error {
	for {
		err := k.look(ctx)
		waits := cli.IsUnavailable(err) || errors.Is(err, errNoCheckpoint)
		switch {
		case ctx.Err() != nil:
			return stopped(ctx, follow)
		case !follow || err != nil && !waits:
			return err
		case err != nil && err.Error() != k.said:
			fmt.Fprintln(k.g.ErrOut, "bronzeward: still following:", cli.OneLine(err.Error()))
			k.said = err.Error()
		case err == nil && k.said != "":
			fmt.Fprintln(k.g.ErrOut, "bronzeward: the book answers again")
			k.said = ""
		}
		if pauseFor(ctx, k.g, every) != nil {
			return stopped(ctx, follow)
		}
	}
}

// stopped is how a command ends that was interrupted: following has no other end, and stopping a
// service is no failure of it.
func stopped(ctx context.Context, follow bool) error {
	if follow && errors.Is(context.Cause(ctx), context.Canceled) {
		return nil
	}
	return context.Cause(ctx)
}

// look holds the newest checkpoint to the one kept, keeps it, and prints it.
func (k *keeper) look(ctx context.Context) error {
	kept, err := k.kept()
	if err != nil {
		return err
	}
	newest, err := k.checked(k.where.newest(ctx))
	if errors.Is(err, tree.ErrNotFound) {
		if kept != nil {
			return shout(fmt.Errorf("%w: it has no checkpoint any more, and %s covers %d leaves", tree.ErrRolledBack, k.file, kept.Size))
		}
		return cli.NotYet(errNoCheckpoint)
	}
	if err != nil {
		return err
	}
	if kept != nil {
		if err := k.compare(ctx, *kept, newest); err != nil {
			return err
		}
	}
	if k.file != "" && (kept == nil || string(kept.Note) != string(newest.Note)) {
		if err := keepFile(k.file, newest.Note); err != nil {
			return err
		}
	}
	return k.print(newest)
}

// kept is the checkpoint in the file, null when there is no file yet.
func (k *keeper) kept() (*tree.Checkpoint, error) {
	if k.file == "" {
		return nil, nil
	}
	if _, err := os.Lstat(k.file); errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	raw, err := readOwn(k.g, "the kept checkpoint (--keep)", k.file)
	if err != nil {
		return nil, err
	}
	c, err := openNote(raw, k.keys)
	switch {
	case errors.Is(err, tree.ErrKey), errors.Is(err, tree.ErrSignature):
		return nil, cli.NotWhole(fmt.Errorf("%s: %w", k.file, keyErrors(err)))
	case err != nil:
		return nil, cli.Usage(fmt.Errorf("%s is no checkpoint, and is left alone: %w", k.file, err))
	}
	return &c, nil
}

// checked checks the signature of a stored checkpoint.
func (k *keeper) checked(s tree.Stored, err error) (tree.Stored, error) {
	if err != nil {
		return s, err
	}
	if _, err := openNote(s.Note, k.keys); err != nil {
		return s, cli.NotWhole(fmt.Errorf("the newest checkpoint of the book: %w", keyErrors(err)))
	}
	return s, nil
}

// compare demands that the book as it is begins with what was kept. When a new epoch began since,
// that is shown of the tree before, whose last checkpoint is then kept beside.
func (k *keeper) compare(ctx context.Context, kept tree.Checkpoint, newest tree.Stored) error {
	last, err := newest, error(nil)
	if kept.Origin != newest.Origin {
		if kept.Installation != newest.Installation {
			return shout(fmt.Errorf("%w: the book is of installation %s, %s of %s", tree.ErrForked, newest.Installation, k.file, kept.Installation))
		}
		last, err = k.checked(k.where.last(ctx, kept.Origin))
		if errors.Is(err, tree.ErrNotFound) {
			return shout(fmt.Errorf("%w: it has no checkpoint of epoch %s any more, and %s is one", tree.ErrRolledBack, kept.Epoch, k.file))
		}
		if err != nil {
			return err
		}
	}
	var proof tlog.TreeProof
	if last.Size > kept.Size {
		if proof, err = k.where.consistency(ctx, last, kept.Size); err != nil {
			if cli.IsUnavailable(err) || errors.Is(err, errUnasked) || ctx.Err() != nil {
				return err
			}
			return shout(fmt.Errorf("%w: it cannot show that its tree of %d leaves begins with the %d of %s: %w%s", tree.ErrForked, last.Size, kept.Size, k.file, err, recovered(kept, newest)))
		}
	}
	if err := tree.CheckConsistency(kept, last.Checkpoint, proof); err != nil {
		return shout(fmt.Errorf("%s: %w%s", k.file, err, recovered(kept, newest)))
	}
	if kept.Origin == newest.Origin {
		return nil
	}
	beside := k.file + "." + kept.Epoch.String()
	fmt.Fprintf(k.g.ErrOut, "bronzeward: a new epoch began, %s: the book goes on in a new tree. The last checkpoint of epoch %s is kept in %s. An epoch begins with a recovery: ask who entered it.\n",
		newest.Epoch, kept.Epoch, cli.ShellWord(beside))
	return keepFile(beside, last.Note)
}

// recovered says that the house knows: a recovery was entered since, and the tree that began with it says what is lost.
func recovered(kept tree.Checkpoint, newest tree.Stored) string {
	if kept.Origin == newest.Origin {
		return ""
	}
	return fmt.Sprintf(". The database was restored, and a recovery was entered since: the tree of epoch %s goes on, and its first entry names the head before it and what is lost", newest.Epoch)
}

// shout makes an error that nobody reads over.
func shout(err error) error {
	return cli.NotWhole(fmt.Errorf("THE BOOK IS NOT THE ONE YOU KEPT A CHECKPOINT OF. %w. Keep that file, take no other, and ask who restored the database", err))
}

func (k *keeper) print(s tree.Stored) error {
	if string(k.shown) == string(s.Note) {
		return nil
	}
	k.shown = s.Note
	if k.g.Output == "table" {
		_, err := k.g.Out.Write(s.Note)
		return err
	}
	return k.g.Print(struct {
		Origin   string    `json:"origin"`
		Epoch    string    `json:"epoch"`
		Size     int64     `json:"size"`
		Root     string    `json:"root"`
		SignedAt time.Time `json:"signed_at"`
		Checked  bool      `json:"signature_checked"`
		Note     string    `json:"note"`
	}{s.Origin, s.Epoch.String(), s.Size, s.Root.String(), s.SignedAt, k.keys != nil, string(s.Note)}, nil, nil)
}
