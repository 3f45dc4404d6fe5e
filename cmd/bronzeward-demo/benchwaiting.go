package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// The list that approvers look at: so many changes, and so many more that have ended.
const (
	waitingChanges = 500
	endedChanges   = 20_000
)

// waiting measures the list of waiting changes over HTTP, beside a request that lists nothing.
func (h *benchHouse) waiting(ctx context.Context, o benchOptions) (string, error) {
	if err := h.haveFleet(ctx); err != nil {
		return "", err
	}
	if err := h.fill(ctx); err != nil {
		return "", err
	}
	t := &table{head: []string{"over HTTP, one connection kept open", "n", "bytes", "p50", "p99"}}
	var wanted aims
	for _, ended := range []int{0, endedChanges} {
		if err := h.endMore(ctx, ended); err != nil {
			return "", fmt.Errorf("writing changes that have ended: %w", err)
		}
		after := ""
		if ended > 0 {
			after = fmt.Sprintf(", %d more have ended", ended)
		}
		list, who := fmt.Sprintf("`GET /changes?state=waiting&limit=%d`%s", waitingChanges, after), "`GET /whoami`"+after
		took, size, err := h.gets(ctx, o.times(100), map[string]string{list: fmt.Sprintf("/changes?state=waiting&limit=%d", waitingChanges), who: "/whoami"})
		if err != nil {
			return "", err
		}
		for _, name := range []string{who, list} {
			t.add(name, fmt.Sprint(len(took[name])), fmt.Sprint(size[name]), millis(took[name].p50()), millis(took[name].p99()))
		}
		wanted.add(took[list].p50() <= 20*time.Millisecond, "%d waiting changes listed in ≤ 20 ms%s: p50 %s, p99 %s", waitingChanges, after, millis(took[list].p50()), millis(took[list].p99()))
	}
	return "### Waiting changes\n\n" + t.String() + wanted.String(), nil
}

// fill captures until so many changes wait.
func (h *benchHouse) fill(ctx context.Context) error {
	if err := h.quorum(ctx, 1); err != nil {
		return err
	}
	var have int
	if err := h.db.QueryRow(ctx, "select count(*) from control.change_states where state = 'waiting'").Scan(&have); err != nil {
		return err
	}
	for have < waitingChanges {
		most := min(waitingChanges-have, len(h.fleet))
		err := h.together(ctx, 4, func(ctx context.Context, i int, m *benchMember) error {
			if i >= most {
				return nil
			}
			return h.comesTo(ctx, m, cameCapture, m.next())
		})
		if err != nil {
			return err
		}
		have += most
	}
	return nil
}

// endMore writes so many changes that have ended, as months of use leave them, behind
// everybody's back, triggers aside.
func (h *benchHouse) endMore(ctx context.Context, n int) error {
	err := pgx.BeginFunc(ctx, h.db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "set local session_replication_role = replica"); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `with old as (
				insert into control.changes
				select gen_random_uuid(), c.entry_id, c.machine_id, c.cluster, c.kind, c.mode, c.try_timeout, c.digest, c.size, c.base_active,
					c.base_persistent, c.node_id, c.talos_cluster_id, c.smbios, c.epoch, c.binding, c.set_name, c.issuer, c.subject,
					c.created_at - n * interval '1 minute', c.approve_by - n * interval '1 minute', c.use_within
				from generate_series(1, $1) n
				join (select c.*, row_number() over () as r from control.changes c join control.change_states s on s.change_id = c.id and s.state = 'waiting') c
					on c.r = 1 + n % 50
				returning *),
			reviewed as (insert into control.change_reviews (change_id, changes, discards, warnings)
				select o.id, r.changes, r.discards, r.warnings from old o, (select * from control.change_reviews limit 1) r)
			insert into control.change_states (change_id, machine_id, binding, state, since, required, groups, self_approval)
			select id, machine_id, binding, 'expired', approve_by, 1, '{}', false from old`, n)
		return err
	})
	if err == nil {
		_, err = h.db.Exec(ctx, "analyze")
	}
	return err
}

// gets reads pages in turns, each to its last byte, and gives how long that took and how many
// bytes they had.
func (h *benchHouse) gets(ctx context.Context, rounds int, pages map[string]string) (map[string]samples, map[string]int, error) {
	transport, err := h.transport("ada")
	if err != nil {
		return nil, nil, err
	}
	client := &http.Client{Transport: transport}
	took, size := map[string]samples{}, map[string]int{}
	const warm = 10
	for round := range rounds + warm {
		for _, name := range slices.Sorted(maps.Keys(pages)) {
			page := pages[name]
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, h.API()+page, nil)
			if err != nil {
				return nil, nil, err
			}
			began := time.Now()
			response, err := client.Do(request)
			if err != nil {
				return nil, nil, err
			}
			body, err := io.ReadAll(response.Body)
			_ = response.Body.Close()
			if err != nil {
				return nil, nil, err
			}
			if response.StatusCode != http.StatusOK {
				return nil, nil, fmt.Errorf("GET %s: %s: %s", page, response.Status, body)
			}
			if size[name] = len(body); round >= warm {
				took[name] = append(took[name], time.Since(began))
			}
		}
	}
	return took, size, nil
}
