package verify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/mod/sumdb/note"

	"bronzeward/audit/tree"
)

// ErrKept is in the chain of the error for a kept file that is no checkpoint.
var ErrKept = errors.New("the file is no kept checkpoint")

// Kept is a checkpoint from the auditor's own disk.
type Kept struct {
	Name string // of the file, as findings tell it
	Note []byte
}

// treeRow is a row of audit.trees.
type treeRow struct {
	tree   int32
	epoch  uuid.UUID
	origin string
	known  bool  // whether audit.trees has it
	size   int64 // leaves, by the largest index
}

// treesSQL gives every tree that any table names, however few the rows that name it.
const treesSQL = `with recursive named(tree) as (
	(select min(x) from (select min(tree) from audit.leaves union all select min(tree) from audit.checkpoints
		union all select min(tree) from audit.tiles union all select min(tree) from audit.trees) m(x))
	union all
	select (select min(x) from (select min(tree) from audit.leaves l where l.tree > named.tree
		union all select min(tree) from audit.checkpoints c where c.tree > named.tree
		union all select min(tree) from audit.tiles i where i.tree > named.tree
		union all select min(tree) from audit.trees t where t.tree > named.tree) m(x))
	from named where named.tree is not null
)
select n.tree, t.epoch, coalesce(t.origin, ''), t.tree is not null,
	coalesce((select l.index + 1 from audit.leaves l where l.tree = n.tree order by l.index desc limit 1), 0)
from named n left join audit.trees t on t.tree = n.tree where n.tree is not null order by n.tree`

func readTrees(ctx context.Context, conn *pgx.Conn, found *findings) ([]treeRow, error) {
	rows, err := conn.Query(ctx, treesSQL)
	if err != nil {
		return nil, fmt.Errorf("reading trees: %w", cause(err))
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (treeRow, error) {
		var t treeRow
		var epoch *uuid.UUID
		err := row.Scan(&t.tree, &epoch, &t.origin, &t.known, &t.size)
		if epoch != nil {
			t.epoch = *epoch
		}
		return t, err
	})
	if err != nil {
		return nil, fmt.Errorf("reading trees: %w", cause(err))
	}
	slices.SortFunc(list, func(a, b treeRow) int { return cmp.Compare(a.tree, b.tree) })
	var installation string
	for _, t := range list {
		f := Finding{Kind: Tree, Table: "trees", Tree: t.tree}
		if !t.known {
			f.Text = "this tree has leaves, tiles or checkpoints, and no row of its own"
			found.add(f)
			continue
		}
		const idText = 36
		own := len(t.origin) == len(tree.KeyName)+2*(1+idText) && t.origin[len(t.origin)-idText:] == t.epoch.String()
		if first := t.origin[:max(0, len(t.origin)-idText)]; own && installation == "" {
			installation = first
		} else if own && installation != first {
			own = false
		}
		if !own {
			f.Differs, f.Text = []string{"origin"}, "its origin is not that of its epoch and of this installation"
			found.add(f)
		}
	}
	return list, nil
}

// keptHeads reads the kept files, and gives the heads by tree. What belongs to no tree of the book is a finding.
func keptHeads(files []Kept, trees []treeRow, keys note.Verifiers, found *findings) (map[int32][]*head, error) {
	out := map[int32][]*head{}
	for _, k := range files {
		if keys != nil {
			_, err := tree.OpenCheckpoint(k.Note, keys)
			if errors.Is(err, tree.ErrKey) || errors.Is(err, tree.ErrSignature) {
				found.add(Finding{Kind: Signature, Table: k.Name, Text: plainKeyError(err)})
				continue
			}
		}
		c, err := tree.ReadUnverified(k.Note)
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrKept, k.Name, err)
		}
		i := slices.IndexFunc(trees, func(t treeRow) bool { return t.known && t.origin == c.Origin })
		if i < 0 {
			found.add(Finding{
				Kind: Forked, Table: k.Name, Indexes: &[2]int64{0, c.Size - 1},
				Text: "the book has no tree of the kept checkpoint's origin, " + c.Origin + ": it is another installation's book, or that epoch was taken out",
			})
			continue
		}
		out[trees[i].tree] = append(out[trees[i].tree], &head{size: c.Size, root: c.Root, name: k.Name})
	}
	for _, list := range out {
		slices.SortFunc(list, func(a, b *head) int { return cmp.Compare(a.size, b.size) })
	}
	return out, nil
}
