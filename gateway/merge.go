package gateway

import (
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// merger puts the answers of several machines into one. A unary answer is the
// concatenation of all parts in the order the caller named the machines; a stream's
// answers pass as they come. A failure is an answer of its own, kept back until some
// machine has answered: when none does, the whole call fails instead.
type merger struct {
	call *call

	mu      sync.Mutex // guards the stream and all below
	parts   [][]byte   // of a unary call, by target
	alive   bool       // some machine has answered
	pending [][]byte   // failures of a stream, not sent yet
}

// answered takes one answer of target i.
func (m *merger) answered(i int, answer []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.alive = true
	if !m.call.method.ServerStream {
		m.parts[i] = append(m.parts[i], answer...)
		return nil
	}
	if err := m.flush(); err != nil {
		return err
	}
	return m.call.stream.SendMsg(&message{bytes: answer})
}

// failed takes the failure of target i.
func (m *merger) failed(i int, v verdict, failure error) error {
	part, err := errorAnswer(v.target.spelled, failure, m.call.method.ServerStream)
	if err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.call.method.ServerStream {
		m.parts[i] = part // what came before a unary failure is no answer
		return nil
	}
	m.pending = append(m.pending, part)
	if !m.alive {
		return nil
	}
	return m.flush()
}

// flush sends the failures that were kept back; m.mu is held.
func (m *merger) flush() error {
	for _, p := range m.pending {
		if err := m.call.stream.SendMsg(&message{bytes: p}); err != nil {
			return err
		}
	}
	m.pending = nil
	return nil
}

// end sends what is left once every machine is done and at least one did not fail.
func (m *merger) end() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.call.method.ServerStream {
		return m.flush()
	}
	var whole []byte
	for _, p := range m.parts {
		whole = append(whole, p...)
	}
	return m.call.stream.SendMsg(&message{bytes: whole})
}
