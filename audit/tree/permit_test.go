package tree

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// remembers is a Permit of somebody who remembers a head outside of the database, as the anchor does.
func remembers(db database, older *Stored) func(context.Context, Tree, Checkpoint) error {
	return func(ctx context.Context, of Tree, next Checkpoint) error {
		if older.Size == 0 || next.Size < older.Size {
			return CheckConsistency(older.Checkpoint, next, nil)
		}
		proof, err := Consistency(ctx, db.gateway, of.Tree, older.Size, next.Size)
		if err != nil {
			return err
		}
		return CheckConsistency(older.Checkpoint, next, proof)
	}
}

// A tree that was forged, with every checkpoint deleted, under a sequencer that was started anew, is
// not signed when somebody outside remembers; control: without being asked it is.
func TestAForgedTreeWithoutCheckpointsIsNotSigned(t *testing.T) {
	for _, asked := range []bool{true, false} {
		t.Run(fmt.Sprintf("asked %v", asked), func(t *testing.T) {
			db := newDatabase(t)
			cfg := config(t, db, newSigner(1))
			s := held(t, cfg)
			fill(t, db, 30)
			drain(t, s)
			kept := sign(t, s).Checkpoint
			if asked {
				cfg.Permit = remembers(db, &kept)
			}
			s.conn.Close(t.Context())
			s = held(t, cfg)
			fill(t, db, 1)
			drain(t, s)
			if st := sign(t, s); st.Checkpoint.Size != 31 || st.Refused != "" {
				t.Fatalf("an honest tree: %+v", st)
			}
			change(t, db, openTables+"update audit.leaves set leaf = sha256('x') where index = 7; delete from audit.checkpoints")
			s.conn.Close(t.Context())
			s = held(t, cfg)
			st := sign(t, s)
			n := count(t, db, "select count(*) from audit.checkpoints")
			if asked && (n != 0 || !strings.Contains(st.Refused, "forked")) {
				t.Errorf("%d checkpoints, refused %q", n, st.Refused)
			}
			if !asked && n != 1 {
				t.Errorf("%d checkpoints: the guard guards nothing", n)
			}
		})
	}
}

// What cannot be asked signs nothing now; what was left with its epoch is left alone, and is no trouble.
func TestWhatIsAskedBeforeSigning(t *testing.T) {
	db := newDatabase(t)
	cfg := config(t, db, newSigner(1))
	answer := errors.New("away")
	cfg.Permit = func(context.Context, Tree, Checkpoint) error { return answer }
	s := held(t, cfg)
	fill(t, db, 3)
	drain(t, s)
	if st := sign(t, s); st.Checkpoint.Size != 0 || st.Refused != "" || !strings.Contains(st.Errors[StepSign], "away") {
		t.Errorf("%+v", st)
	}
	answer = fmt.Errorf("%w: long ago", ErrAbandoned)
	if st := sign(t, s); st.Checkpoint.Size != 0 || st.Refused != "" || st.Errors[StepSign] != "" {
		t.Errorf("%+v", st)
	}
	answer = nil
	if st := sign(t, s); st.Checkpoint.Size != 0 {
		t.Errorf("an abandoned tree is signed: %+v", st)
	}
}
