package control

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// pooler is a proxy that pools by transaction: a session has a server connection from the
// first message of a transaction to its end, the one used last first.
type pooler struct {
	dsn string
	mu  sync.Mutex
	// idle is a stack of server connections; guarded by mu.
	idle []*pgconn.HijackedConn
}

func newPooler(t *testing.T, serverDSN string) (dir string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "bwq")
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", filepath.Join(dir, ".s.PGSQL.5432"))
	if err != nil {
		t.Fatal(err)
	}
	p := &pooler{dsn: serverDSN}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { _ = p.serve(ctx, client) })
		}
	})
	t.Cleanup(func() {
		cancel()
		listener.Close()
		wg.Wait()
		for _, c := range p.idle {
			c.Conn.Close()
		}
		os.RemoveAll(dir)
	})
	return dir
}

func (p *pooler) take(ctx context.Context) (*pgconn.HijackedConn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.idle); n > 0 {
		c := p.idle[n-1]
		p.idle = p.idle[:n-1]
		return c, nil
	}
	conn, err := pgconn.Connect(ctx, p.dsn)
	if err != nil {
		return nil, err
	}
	return conn.Hijack()
}

func (p *pooler) put(c *pgconn.HijackedConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, c)
}

func (p *pooler) serve(ctx context.Context, client net.Conn) error {
	defer client.Close()
	front := pgproto3.NewBackend(client, client)
	if _, err := front.ReceiveStartupMessage(); err != nil {
		return err
	}
	front.Send(&pgproto3.AuthenticationOk{})
	front.Send(&pgproto3.ParameterStatus{Name: "standard_conforming_strings", Value: "on"})
	front.Send(&pgproto3.ParameterStatus{Name: "client_encoding", Value: "UTF8"})
	front.Send(&pgproto3.BackendKeyData{ProcessID: 4711, SecretKey: []byte{1, 2, 3, 4}})
	front.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	if err := front.Flush(); err != nil {
		return err
	}
	var server *pgconn.HijackedConn
	defer func() {
		if server != nil {
			server.Conn.Close()
		}
	}()
	for {
		message, err := front.Receive()
		if err != nil {
			return err
		}
		if _, end := message.(*pgproto3.Terminate); end {
			return nil
		}
		if server == nil {
			if server, err = p.take(ctx); err != nil {
				return err
			}
		}
		server.Frontend.Send(message)
		switch message.(type) {
		case *pgproto3.Query, *pgproto3.Sync:
		default:
			continue
		}
		status, err := answer(server, front)
		if err != nil {
			return err
		}
		if status == 'I' {
			p.put(server)
			server = nil
		}
	}
}

// answer hands on what the server says until it is ready, and gives its transaction status.
func answer(server *pgconn.HijackedConn, front *pgproto3.Backend) (byte, error) {
	if err := server.Frontend.Flush(); err != nil {
		return 0, err
	}
	for {
		reply, err := server.Frontend.Receive()
		if err != nil {
			return 0, err
		}
		front.Send(reply)
		if ready, is := reply.(*pgproto3.ReadyForQuery); is {
			return ready.TxStatus, front.Flush()
		}
	}
}
