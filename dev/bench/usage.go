// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// usage is what a measurement used.
type usage struct {
	requests  int64 // the requests on the wire: a script is one, with all commands that it calls
	commands  int64 // the commands that the server executed, those called by scripts included
	serverCPU time.Duration
	clientCPU time.Duration // the CPU time of this process, which runs all clients
	mallocs   uint64
	bytes     uint64
}

// meter remembers what had been used when a measurement began.
type meter struct {
	server    *redistest.Server
	stats     map[string]redistest.CommandStat
	serverCPU time.Duration
	client    client
}

// client is what this process has used.
type client struct {
	cpu            time.Duration
	mallocs, bytes uint64
}

// begin asks the server first, so that asking it is no part of what the client uses.
func begin(server *redistest.Server) (*meter, error) {
	m := &meter{server: server, stats: server.CommandStats(), serverCPU: server.CPU()}
	var err error
	m.client, err = readClient()
	return m, err
}

// end returns what was used since begin. sends is that of the implementation.
func (m *meter) end(sends []string) (usage, error) {
	now, err := readClient()
	if err != nil {
		return usage{}, err
	}
	used := usage{
		serverCPU: m.server.CPU() - m.serverCPU,
		clientCPU: now.cpu - m.client.cpu,
		mallocs:   now.mallocs - m.client.mallocs,
		bytes:     now.bytes - m.client.bytes,
	}
	used.count(m.stats, m.server.CommandStats(), sends)
	return used, nil
}

// count adds up the calls between two readings of the statistics.
func (u *usage) count(before, after map[string]redistest.CommandStat, sends []string) {
	for name, stat := range after {
		calls := stat.Calls - before[name].Calls
		if name == "info" { // the meter's own
			continue
		}
		u.commands += calls
		if isRequest(name, sends) {
			u.requests += calls
		}
	}
}

// isRequest separates what a client sends from what its scripts call, which the server counts
// alike: no script can call the commands listed here, or none here does, and what an
// implementation sends besides, none of its own scripts calls.
func isRequest(name string, sends []string) bool {
	base, _, _ := strings.Cut(name, "|")
	switch base {
	case "eval", "evalsha", "eval_ro", "evalsha_ro", "script", "fcall", "fcall_ro", "function",
		"subscribe", "unsubscribe", "ssubscribe", "sunsubscribe", "psubscribe", "punsubscribe",
		"hello", "auth", "client", "ping", "select", "command", "cluster", "role":
		return true
	}
	return slices.Contains(sends, name)
}

func readClient() (client, error) {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return client{}, fmt.Errorf("getrusage: %w", err)
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return client{
		cpu:     time.Duration(r.Utime.Nano() + r.Stime.Nano()),
		mallocs: m.Mallocs,
		bytes:   m.TotalAlloc,
	}, nil
}
