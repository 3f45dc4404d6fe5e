package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/siderolabs/talos/pkg/machinery/api/common"
	"github.com/siderolabs/talos/pkg/machinery/api/machine"
)

const (
	benchVersion = "/machine.MachineService/Version"
	benchLogs    = "/machine.MachineService/Logs"
	benchApply   = "/machine.MachineService/ApplyConfiguration"
)

// unary makes one call and gives its answer.
func (w benchWay) unary(ctx context.Context, conn *grpc.ClientConn, method string, request []byte) ([]byte, error) {
	var answer []byte
	err := conn.Invoke(metadata.NewOutgoingContext(ctx, w.md.Copy()), method, &request, &answer)
	return answer, err
}

// readings are what one way did with one number of callers.
type readings struct {
	took  samples
	whole time.Duration // wall time of all rounds together
	cpu   cpuTimes      // of all rounds together
}

func (r *readings) perSecond() float64 {
	if r == nil || r.whole == 0 {
		return 0
	}
	return float64(len(r.took)) / r.whole.Seconds()
}

// reads measures Version with one and with sixteen callers, each with a connection of its
// own, and counts what the book holds of them afterwards.
func (h *benchHouse) reads(ctx context.Context, o benchOptions) (string, error) {
	t := &table{head: []string{"`Version`", "way", "p50", "p99", "calls/s", "p50 to bare proxy", "p50 over bare proxy", "calls/s to bare proxy"}}
	cost := &table{head: []string{"processor time per call", "way", cpuCaller, cpuMiddle, cpuDatabase, cpuNode, "together"}}
	var wanted aims
	for _, c := range []struct{ callers, each, rounds int }{{1, o.times(200), 10}, {16, o.times(100), 10}} {
		before, err := h.entriesOf(ctx, benchVersion)
		if err != nil {
			return "", err
		}
		all, made, err := h.version(ctx, c.callers, c.each, c.rounds)
		if err != nil {
			return "", err
		}
		after, err := h.entriesOf(ctx, benchVersion)
		if err != nil {
			return "", err
		}
		if after-before != made {
			return "", fmt.Errorf("%d calls through Bronzeward left %d entries", made, after-before)
		}
		bare := all[wayProxy]
		for _, way := range h.ways {
			r := all[way.name]
			t.add(callers(c.callers), way.name, millis(r.took.p50()), millis(r.took.p99()), fmt.Sprintf("%.0f", r.perSecond()),
				ratio(float64(r.took.p50()), float64(bare.took.p50())), millis(r.took.p50()-bare.took.p50()), ratio(r.perSecond(), bare.perSecond()))
			cost.add(r.costs(callers(c.callers), way.name)...)
		}
		ours := all[wayGate]
		if c.callers == 1 {
			over := ours.took.p50() - bare.took.p50()
			wanted.add(over <= 500*time.Microsecond, "unary read p50 ≤ bare proxy + 0.5 ms with its row durable: %s over it", millis(over))
		} else {
			wanted.add(ours.perSecond() >= 5000, "≥ 5 000 recorded reads/s with 16 callers: %.0f/s", ours.perSecond())
		}
		wanted.add(true, "with %s each of %d calls left one durable entry", callers(c.callers), made)
	}
	return "### Unary reads\n\n" + t.String() + "\n" + cost.String() + wanted.String(), nil
}

// costs is a row of the table of processor time.
func (r *readings) costs(callers, way string) []string {
	row, together := []string{callers, way}, time.Duration(0)
	for _, part := range []string{cpuCaller, cpuMiddle, cpuDatabase, cpuNode} {
		row, together = append(row, micros(r.cpu[part], len(r.took))), together+r.cpu[part]
	}
	return append(row, micros(together, len(r.took)))
}

// micros is a part of a time in microseconds.
func micros(d time.Duration, n int) string {
	return fmt.Sprintf("%.0f µs", float64(d.Microseconds())/float64(max(n, 1)))
}

func callers(n int) string {
	if n == 1 {
		return "1 caller"
	}
	return fmt.Sprintf("%d callers", n)
}

// version runs the rounds and says how many calls went through Bronzeward.
func (h *benchHouse) version(ctx context.Context, callers, each, rounds int) (map[string]*readings, int64, error) {
	conns := map[string][]*grpc.ClientConn{}
	all := map[string]*readings{}
	made := int64(0)
	for _, way := range h.ways {
		all[way.name] = &readings{cpu: cpuTimes{}}
		for range callers {
			conn, err := way.dial()
			if err != nil {
				return nil, 0, err
			}
			conns[way.name] = append(conns[way.name], conn)
		}
	}
	err := takeTurns(rounds+1, h.ways, func(round int, way benchWay) error {
		before, err := h.cpu()
		if err != nil {
			return err
		}
		took, whole, err := versionRound(ctx, way, conns[way.name], each)
		if err != nil {
			return err
		}
		if way.name == wayGate {
			made += int64(len(took))
		}
		after, err := h.cpu()
		if round > 0 { // the first one warms connections and caches up
			r := all[way.name]
			r.took, r.whole = append(r.took, took...), r.whole+whole
			r.cpu.plus(after.since(before))
		}
		return err
	})
	return all, made, err
}

// versionRound has every caller make its calls, one after the other.
func versionRound(ctx context.Context, way benchWay, conns []*grpc.ClientConn, each int) (samples, time.Duration, error) {
	took := make([]samples, len(conns))
	errs := make([]error, len(conns))
	var wg sync.WaitGroup
	began := time.Now()
	for i, conn := range conns {
		wg.Go(func() {
			took[i] = make(samples, 0, each)
			for range each {
				from := time.Now()
				if _, errs[i] = way.unary(ctx, conn, benchVersion, nil); errs[i] != nil {
					return
				}
				took[i] = append(took[i], time.Since(from))
			}
		})
	}
	wg.Wait()
	whole := time.Since(began)
	var out samples
	for _, t := range took {
		out = append(out, t...)
	}
	return out, whole, errors.Join(errs...)
}

// streams measures the Logs stream at full rate.
func (h *benchHouse) streams(ctx context.Context, o benchOptions) (string, error) {
	t := &table{head: []string{"`Logs` at full rate", "way", "MB/s", "to bare proxy"}}
	var wanted aims
	for _, c := range []struct {
		what        string
		bytes, each int
		rounds      int
	}{{"messages of 32 KiB", o.times(128 << 20), 32 << 10, 7}, {"messages of 1 KiB", o.times(24 << 20), 1 << 10, 4}} {
		rates := map[string]float64{}
		whole := map[string]time.Duration{}
		conns := map[string]*grpc.ClientConn{}
		err := takeTurns(c.rounds+1, h.ways, func(round int, way benchWay) (err error) {
			if conns[way.name] == nil {
				if conns[way.name], err = way.dial(); err != nil {
					return err
				}
			}
			took, err := streamOnce(ctx, way, conns[way.name], c.bytes, c.each)
			if round > 0 {
				whole[way.name] += took
			}
			return err
		})
		if err != nil {
			return "", err
		}
		for _, way := range h.ways {
			rates[way.name] = float64(c.bytes) * float64(c.rounds) / whole[way.name].Seconds() / 1e6
		}
		for _, way := range h.ways {
			t.add(c.what, way.name, fmt.Sprintf("%.0f", rates[way.name]), ratio(rates[way.name], rates[wayProxy]))
		}
		part := rates[wayGate] / rates[wayProxy]
		wanted.add(part >= 0.95, "stream ≥ 95 %% of the bare proxy, %s: %.0f %%", c.what, part*100)
	}
	return "### Streams\n\n" + t.String() + wanted.String(), nil
}

// streamOnce reads one bulk log to its end and checks that all of it came.
func streamOnce(ctx context.Context, way benchWay, conn *grpc.ClientConn, bytes, each int) (time.Duration, error) {
	request, err := proto.Marshal(&machine.LogsRequest{
		Namespace: "system", Driver: common.ContainerDriver_CONTAINERD, Id: fmt.Sprintf("bulk-%d-%d", bytes, each), TailLines: -1,
	})
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(metadata.NewOutgoingContext(ctx, way.md.Copy()))
	defer cancel()
	began := time.Now()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, benchLogs)
	if err != nil {
		return 0, err
	}
	if err := errors.Join(stream.SendMsg(&request), stream.CloseSend()); err != nil {
		return 0, err
	}
	for got := 0; ; {
		var answer []byte
		err := stream.RecvMsg(&answer)
		if errors.Is(err, io.EOF) {
			if got < bytes {
				return 0, fmt.Errorf("%d of %d bytes came", got, bytes)
			}
			return time.Since(began), nil
		}
		if err != nil {
			return 0, err
		}
		got += len(answer)
	}
}
