package httpapi

import (
	"fmt"
	"net/netip"

	"github.com/google/uuid"

	"bronzeward/gateway/control"
	"bronzeward/gateway/httpapi/api"
)

// A pin in place of another one is an act of its own.
const (
	actPin   = "machines.pin"
	actRepin = "machines.repin"
)

// mostMachines is how many machines one request adds.
const mostMachines = 5000

func (d *door) addMachines(c *call) (answer, error) {
	var body api.NewMachines
	if err := decode(c, &body); err != nil {
		return nil, err
	}
	if n := len(body.Machines); n == 0 || n > mostMachines {
		return nil, malformed("machines has 1 to %d machines, not %d", mostMachines, n)
	}
	machines, names := make([]control.NewMachine, 0, len(body.Machines)), make([]string, 0, len(body.Machines))
	for i := range body.Machines {
		one, err := newMachine(fmt.Sprintf("machines[%d]", i), &body.Machines[i])
		if err != nil {
			return nil, err
		}
		machines, names = append(machines, one), append(names, one.Name)
	}
	added := api.AddMachines201JSONResponse{Body: api.AddedMachines{Names: names}}.VisitAddMachinesResponse
	once, err := once(c, func(any) answer { return added })
	if err != nil {
		return nil, err
	}
	receipt, err := d.Inventory.AddMachines(c.ctx, c.by, machines, once)
	if err != nil {
		return c.repeated(err, actMachinesRead, nil)
	}
	c.entry.fallback(receipt.ID)
	return added, nil
}

// newMachine reads one row; what a name, label or role may be is the store's to say.
func newMachine(at string, n *api.NewMachine) (control.NewMachine, error) {
	out := control.NewMachine{Name: n.Name, Cluster: n.Cluster}
	if err := firstProblem(checkText(at+".name", n.Name, 1, mostWord), checkText(at+".cluster", n.Cluster, 1, mostWord)); err != nil {
		return out, err
	}
	if n.Role != nil {
		out.Role = string(*n.Role)
		if p := oneOf(at+".role", out.Role, string(api.Worker), string(api.Controlplane)); p != nil {
			return out, p
		}
	}
	if n.Port != nil {
		port, err := portOf(at+".port", *n.Port)
		if err != nil {
			return out, err
		}
		out.Port = port
	}
	if n.Labels != nil {
		out.Labels = *n.Labels
	}
	var err error
	out.Addresses, err = addressesOf(at+".addresses", n.Addresses)
	return out, err
}

func portOf(at string, port int) (uint16, error) {
	if port < 1 || port > 65535 {
		return 0, malformed("%s is a number from 1 to 65535, not %d", at, port)
	}
	return uint16(port), nil
}

func addressesOf(at string, texts []string) ([]netip.Addr, error) {
	out := make([]netip.Addr, 0, len(texts))
	for i, text := range texts {
		a, err := netip.ParseAddr(text)
		if err != nil {
			return nil, malformed("%s[%d] is %s, not an IP address", at, i, quoted(text))
		}
		out = append(out, a)
	}
	return out, nil
}

func (d *door) updateMachine(c *call) (answer, error) {
	name, err := c.actOnMachine()
	if err != nil {
		return nil, err
	}
	var body api.MachineUpdate
	if err := decode(c, &body); err != nil {
		return nil, err
	}
	port, err := portOf("port", body.Port)
	if err != nil {
		return nil, err
	}
	addresses, err := addressesOf("addresses", body.Addresses)
	if err != nil {
		return nil, err
	}
	receipt, err := d.Inventory.UpdateMachine(c.ctx, c.by, name, control.MachineUpdate{Addresses: addresses, Port: port, Labels: body.Labels}, nil)
	if err != nil {
		return nil, err
	}
	c.entry.fallback(receipt.ID)
	v, err := d.wholeMachine(c.ctx, name)
	if err != nil {
		return nil, c.notShown("machine "+name+" was updated", err)
	}
	return api.UpdateMachine200JSONResponse{OneMachineJSONResponse: api.OneMachineJSONResponse{Body: v}}.VisitUpdateMachineResponse, nil
}

func (d *door) observeMachine(c *call) (answer, error) {
	name, err := c.actOnMachine()
	if err != nil {
		return nil, err
	}
	if err := decode(c, &struct{}{}); err != nil {
		return nil, err
	}
	once, err := once[control.Observation](c, nil)
	if err != nil {
		return nil, err
	}
	o, err := d.Observer.Observe(c.ctx, c.by, name, once)
	if err != nil {
		return c.repeated(err, actMachinesRead, func(uuid.UUID) (answer, error) {
			m, err := d.Machines.GetMachine(c.ctx, name)
			if err != nil {
				return nil, err
			}
			if m.Observed == nil {
				return nil, fmt.Errorf("machine %s was observed, and no observation is there", name)
			}
			return observation(name, &control.Observation{
				Identity: m.Observed.Identity, Version: m.Observed.Version, Stage: m.Observed.Stage, Type: m.Observed.Type,
				Active: m.Observed.Active, Persistent: m.Observed.Persistent,
			}), nil
		})
	}
	return observation(name, &o), nil
}

func observation(name string, o *control.Observation) answer {
	return api.ObserveMachine201JSONResponse{Body: viewObservation(name, o)}.VisitObserveMachineResponse
}

func (d *door) pinMachine(c *call) (answer, error) {
	var body api.NewPin
	if err := decode(c, &body); err != nil {
		return nil, err
	}
	act := actPin
	if body.Replace {
		act = actRepin
	}
	if err := d.Book.May(c.ctx, c.by, act, c.subject()); err != nil {
		return nil, err
	}
	name, err := c.actOnMachine()
	if err != nil {
		return nil, err
	}
	pinned := func(id control.Identity) answer {
		return api.PinMachine201JSONResponse{Body: api.Pin{Machine: name, Identity: viewIdentity(id)}}.VisitPinMachineResponse
	}
	once, err := once[control.Identity](c, nil)
	if err != nil {
		return nil, err
	}
	id, err := d.Observer.Pin(c.ctx, c.by, name, body.Replace, once)
	if err != nil {
		return c.repeated(err, actMachinesRead, func(uuid.UUID) (answer, error) {
			m, err := d.Machines.GetMachine(c.ctx, name)
			if err != nil {
				return nil, err
			}
			return pinned(m.Identity), nil
		})
	}
	return pinned(id), nil
}
