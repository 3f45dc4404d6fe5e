package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Processor time is what a figure taken on two shared cores is made of, and moves less
// with what else the machine does than any time on the clock.

// cpuTimes is the processor time used so far, by part of the house.
type cpuTimes map[string]time.Duration

// Parts of the house, as the table shows them.
const (
	cpuCaller   = "load program"
	cpuMiddle   = "proxy or gateway"
	cpuDatabase = "PostgreSQL"
	cpuNode     = "node"
)

// cpu reads what every process of the house has used. The two ways through something have
// one process in the middle; both count as one part, because ways take turns.
func (h *benchHouse) cpu() (cpuTimes, error) {
	out := cpuTimes{}
	add := func(part string, pid int, children bool) error {
		used, _, err := processTime(pid, children)
		out[part] += used
		return err
	}
	if err := add(cpuCaller, os.Getpid(), false); err != nil {
		return nil, err
	}
	for _, p := range h.processes {
		part := cpuNode
		if p.cmd.Args[1] == "bench-proxy" {
			part = cpuMiddle
		}
		if err := add(part, p.cmd.Process.Pid, false); err != nil {
			return nil, err
		}
	}
	if err := add(cpuMiddle, h.Gateways["gateway-1"].Pid(), false); err != nil {
		return nil, err
	}
	postmaster, err := strconv.Atoi(firstWords(filepath.Join(h.Postgres.Dir(), "data", "postmaster.pid"), 1))
	if err != nil {
		return nil, fmt.Errorf("reading postmaster.pid: %w", err)
	}
	if err := add(cpuDatabase, postmaster, true); err != nil {
		return nil, err
	}
	all, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	for _, entry := range all {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		// A process that has gone meanwhile counts with its parent.
		if used, parent, err := processTime(pid, false); err == nil && parent == postmaster {
			out[cpuDatabase] += used
		}
	}
	return out, nil
}

// since takes another reading off.
func (c cpuTimes) since(before cpuTimes) cpuTimes {
	out := cpuTimes{}
	for part, used := range c {
		out[part] = used - before[part]
	}
	return out
}

func (c cpuTimes) plus(other cpuTimes) {
	for part, used := range other {
		c[part] += used
	}
}

// tick is the unit of /proc/PID/stat on every Linux there is.
const tick = 10 * time.Millisecond

// processTime is the user and system time of a process, with that of its children that
// have ended if asked, and its parent. Source: proc_pid_stat(5).
func processTime(pid int, children bool) (used time.Duration, parent int, _ error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, err
	}
	// The second field is a name in parentheses and may hold anything.
	fields := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
	if len(fields) < 15 {
		return 0, 0, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	parent, err = strconv.Atoi(fields[1])
	if err != nil {
		return 0, 0, err
	}
	from, to := 11, 13 // utime, stime
	if children {
		to = 15 // and cutime, cstime
	}
	for _, field := range fields[from:to] {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, 0, err
		}
		used += time.Duration(ticks) * tick
	}
	return used, parent, nil
}
