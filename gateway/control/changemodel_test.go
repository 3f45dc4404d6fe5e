package control

import (
	"slices"

	"bronzeward/policy"
)

// model is what one machine's changes should be, by the rules alone. It knows the last change;
// those before it have ended.
type model struct {
	// state is empty before the first change.
	state    ChangeState
	asked    policy.Quorum
	owner    policy.Person
	given    []given
	revoked  map[policy.Person]bool
	lateToOK bool // approve_by has passed
	lateToGo bool // use_by has passed
	// attempt is the state of the change's own attempt; empty without.
	attempt State
	// base is what the machine runs, applied what it was applied last, empty before that, and pin who it is.
	base    string
	applied string
	pin     int
	// of is what the change was proposed against, and overtaken what the machine ran instead.
	of, overtaken string
}

// given is one approval.
type given struct {
	by        policy.Person
	group     string
	withdrawn bool
}

func (m *model) live() bool { return m.state.Live() }

// over is whether a clock of the live change has run out.
func (m *model) over() bool {
	return m.state == ChangeWaiting && m.lateToOK || m.state == ChangeApproved && m.lateToGo
}

func (m *model) held() bool { return m.attempt.Held() }

// counting is how many people's approvals count for the spender.
func (m *model) counting(q policy.Quorum, spender policy.Person) int {
	var people []policy.Person
	for _, g := range m.given {
		own := g.by == m.owner || g.by == spender
		if g.withdrawn || m.revoked[g.by] || !slices.Contains(q.Groups, g.group) || own && !q.SelfApproval || slices.Contains(people, g.by) {
			continue
		}
		people = append(people, g.by)
	}
	return len(people)
}

func (m *model) recount() {
	enough := m.counting(m.asked, policy.Person{}) >= m.asked.Required
	switch {
	case m.state == ChangeWaiting && enough:
		m.state, m.lateToGo = ChangeApproved, false
	case m.state == ChangeApproved && !enough:
		m.state, m.lateToGo = ChangeWaiting, false
	}
}

// approval is the person's that was not withdrawn; null when there is none.
func (m *model) approval(p policy.Person) *given {
	for i := range m.given {
		if g := &m.given[i]; g.by == p && !g.withdrawn {
			return g
		}
	}
	return nil
}

// revoke takes a person's authority away, for good.
func (m *model) revoke(p policy.Person) {
	m.revoked[p] = true
	switch {
	case !m.live():
	case m.owner == p:
		m.state = ChangeRevoked
	default:
		if g := m.approval(p); g != nil {
			g.withdrawn = true
		}
		m.recount()
	}
}

// giveBack is an attempt that changed nothing.
func (m *model) giveBack() {
	m.state = ChangeApproved
	if m.revoked[m.owner] {
		m.state = ChangeRevoked
		return
	}
	m.recount()
}

// runs is evidence that the machine runs something.
func (m *model) runs(digest string) {
	m.base = digest
	if m.live() && m.of != digest {
		m.state, m.overtaken = ChangeSuperseded, digest
	}
}

// sweep marks a change whose clock has run out.
func (m *model) sweep() {
	if m.over() {
		m.state = ChangeExpired
	}
}
