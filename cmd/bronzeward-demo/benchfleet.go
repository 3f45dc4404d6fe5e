package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"bronzeward/gateway/httpapi/api"
	"bronzeward/gateway/httpapi/apiclient"
)

// fleetSize is how many machines are applied to at the same time, each in a cluster of its own.
const fleetSize = 50

// benchMember is one fake worker of the fleet with an operator's own connection to the
// gateway. turn counts what it was asked to hold.
type benchMember struct {
	*benchNode
	way  benchWay
	conn *grpc.ClientConn
	turn int
}

// fleetCluster is the cluster of a fleet's machine: each has its own.
func fleetCluster(i int) string { return fmt.Sprintf("bench-%d", i) }

// haveFleet starts the fleet, once.
func (h *benchHouse) haveFleet(ctx context.Context) error {
	if h.fleet != nil {
		return nil
	}
	c, err := h.api("olga")
	if err != nil {
		return err
	}
	gate := h.ways[len(h.ways)-1]
	h.other = &benchMember{benchNode: h.small, way: gate, turn: 9_000_000}
	if h.other.conn, err = gate.dial(); err != nil {
		return err
	}
	body := api.NewMachines{}
	for i := range fleetSize {
		name, ip := fmt.Sprintf("fleet-%d", i), fmt.Sprintf("127.0.1.%d", i+1)
		n, err := h.startNode(name, ip, h.small.text, "-cluster-id", fmt.Sprintf("fleet-cluster-%d", i))
		if err != nil {
			return err
		}
		_, port, err := net.SplitHostPort(n.address)
		if err != nil {
			return err
		}
		number, err := strconv.Atoi(port)
		if err != nil {
			return err
		}
		conn, err := gate.dial()
		if err != nil {
			return err
		}
		way := benchWay{name: name, dial: gate.dial, md: metadata.Pairs("node", name)}
		h.fleet = append(h.fleet, &benchMember{benchNode: n, way: way, conn: conn})
		body.Machines = append(body.Machines, api.NewMachine{Name: name, Cluster: fleetCluster(i), Addresses: []string{ip}, Port: &number})
	}
	added, err := c.AddMachinesWithResponse(ctx, nil, body)
	if err := answered(added, err, http.StatusCreated); err != nil {
		return fmt.Errorf("adding the fleet: %w", err)
	}
	for _, m := range h.fleet {
		pinned, err := c.PinMachineWithResponse(ctx, m.name, nil, api.NewPin{})
		if err := answered(pinned, err, http.StatusCreated); err != nil {
			return fmt.Errorf("pinning %s: %w", m.name, err)
		}
	}
	return nil
}

// next is a configuration the member has not been asked to hold yet.
func (m *benchMember) next() []byte {
	m.turn++
	return turnText(m.text, m.turn)
}

// apply makes an apply of the text.
func (m *benchMember) apply(ctx context.Context, text []byte) error {
	request, err := applyRequest(text)
	if err != nil {
		return err
	}
	_, err = m.way.unary(ctx, m.conn, benchApply, request)
	return err
}

// together does something to every member of the fleet, so many at once.
func (h *benchHouse) together(ctx context.Context, atOnce int, one func(ctx context.Context, i int, m *benchMember) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i, m := range h.fleet {
		group.Go(func() error {
			if err := one(ctx, i, m); err != nil {
				return fmt.Errorf("%s: %w", m.name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// deniedFor checks that a call was refused for one reason, and gives the change it names.
func deniedFor(err error, code string) (change string, _ error) {
	said := status.Convert(err)
	if said.Code() != codes.PermissionDenied || !regexp.MustCompile(`DENIED `+code+`\b`).MatchString(said.Message()) {
		return "", fmt.Errorf("it should have been refused with %s, and was answered %s: %s", code, said.Code(), said.Message())
	}
	return changeID.FindString(said.Message()), nil
}

// transport is a person's own connections to the HTTP API, kept alive.
func (h *benchHouse) transport(person string) (*http.Transport, error) {
	conf, err := h.ClientTLS(person)
	if err != nil {
		return nil, err
	}
	conf.ServerName, conf.NextProtos = "", nil
	t := &http.Transport{TLSClientConfig: conf}
	h.web = append(h.web, t)
	return t, nil
}

// api is the first replica's HTTP API as a person.
func (h *benchHouse) api(person string) (*apiclient.ClientWithResponses, error) {
	t, err := h.transport(person)
	if err != nil {
		return nil, err
	}
	return apiclient.NewClientWithResponses(h.API(), apiclient.WithHTTPClient(&http.Client{Transport: t}))
}

// answered checks an answer of the HTTP API.
func answered[T interface {
	StatusCode() int
	GetBody() []byte
}](r T, err error, want int) error {
	if err != nil {
		return err
	}
	if r.StatusCode() != want {
		return fmt.Errorf("the API answered %d: %s", r.StatusCode(), r.GetBody())
	}
	return nil
}

// quorum makes a law live that asks for so many approvals, and sees to it that the gateway has it.
func (h *benchHouse) quorum(ctx context.Context, n int) error {
	path := h.PolicyDir() + "/bronzeward/data.yaml"
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	line := regexp.MustCompile(`(?m)^  required: \d+$`)
	if len(line.FindAll(raw, -1)) != 1 {
		return errors.New("the law's data do not say once how many approvals are required")
	}
	if err := os.WriteFile(path, line.ReplaceAll(raw, fmt.Appendf(nil, "  required: %d", n)), 0o644); err != nil {
		return err
	}
	if _, err := h.Bronzeward(ctx, "sven", "policy", "activate", h.PolicyDir()); err != nil {
		return err
	}
	// An apply is judged under the lock by the law that is live, and so has it loaded.
	err = h.other.apply(ctx, h.other.next())
	if n > 0 {
		_, err = deniedFor(err, "BW-APPROVAL-001")
	}
	return err
}
