// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// load is what is asked of the servers. All counts are of the whole system.
type load struct {
	masters   int // more than one is a cluster
	processes int

	held  int
	lease time.Duration
	name  int // bytes of a name and its prefix

	waiters int // goroutines that wait
	waited  int // names that they wait for; a process waits for its share of them, or for one name

	pairs    float64 // Lock and Unlock of a free lock, a second
	handOffs float64 // between processes, a second
	permits  float64 // acquired and released, a second

	shards, members int // of one group of shards, which is on one master

	outage time.Duration // the servers stop for that long
}

// What a step costs a server, in microseconds of a core, and where that was measured.
const (
	pairCost     = 9.2 // uncontended, 64 goroutines
	renewalCost  = 4.4 // held: 10,000 at 3 s; 256 in one script
	renewalAlone = 7.5 // the same with a script for each, as in a cluster: 12,000 instructions and a request more
	waitCost     = 3   // waiters, 20,000 of 2,000 names: a name that a session waits for, for a second
	handOffCost  = 70  // queued: a release that grants, and the next ticket
	permitCost   = 35  // permits-out
	memberPoll   = 220 // shards: a member's poll, once a second
)

// What a step sends and receives, in bytes of a server's network, besides the name, as INFO stats counted it in these runs. That
// of a member is an estimate.
const (
	pairBytes    = 340
	renewalBytes = 80 // of 256 in one script
	renewalOne   = 200
	waitBytes    = 150
	handOffBytes = 1100
	permitBytes  = 1000
	memberBytes  = 1500
)

// What a thing keeps, in bytes.
const (
	heldServer  = 170 // and its name
	queueServer = 230 // a name that sessions wait for, and queueSession for each session
	queueEach   = 80
	shardServer = 510 // a shard, or a member
	heldProcess = 770
	waitProcess = 1400
	waitStack   = 4600
	baseProcess = 2 << 20 // the connections' buffers
)

// Limits of what is usual. Those of servers are the defaults of Redis, or a machine of a cloud.
const (
	coreLimit       = 0.7     // of a server's core: beyond it calls queue
	memoryLimit     = 8 << 30 // of a server
	connectionLimit = 10_000  // maxclients
	networkLimit    = 125e6   // 1 Gbit/s
	heapLimit       = 1 << 30 // of a process for its locks
	requestLimit    = 50_000  // that a process sends in a second
)

// need is one resource.
type need struct {
	name        string
	value       float64
	limit       float64
	format      func(float64) string
	whatMovesIt string
}

// share is which part of the limit is needed.
func (n need) share() float64 { return n.value / n.limit }

// needs returns the resources, that which saturates first at the head.
func (l load) needs() []need {
	masters, processes := float64(max(l.masters, 1)), float64(max(l.processes, 1))
	renewals, renewal, renewalSends := l.renewals(), renewalCost, float64(renewalBytes)
	requests := renewals / 256
	if l.masters > 1 {
		requests, renewal, renewalSends = renewals, renewalAlone, renewalOne
	}
	polls := l.polls()
	micros := renewals*renewal + polls*waitCost + l.pairs*pairCost + l.handOffs*handOffCost + l.permits*permitCost
	members := float64(l.members) * memberPoll
	name := float64(l.name)
	bytes := renewals*(renewalSends+name) + polls*(waitBytes+name) + l.pairs*(pairBytes+4*name) + l.handOffs*(handOffBytes+6*name) +
		l.permits*(permitBytes+4*name) + float64(l.members)*memberBytes
	kept := float64(l.held)*(heldServer+name) + float64(l.waited)*(queueServer+name) + polls*queueEach + float64(l.shards+l.members)*shardServer
	heap := baseProcess + (float64(l.held)*(heldProcess+name)+float64(l.waiters)*(waitProcess+waitStack))/processes
	sent := (requests + polls/l.pollsOfARequest() + 2*l.pairs + 2*l.handOffs + 2*l.permits + float64(l.members)) / processes
	mover := movedBy(renewals*renewal, polls*waitCost, members*masters, l.pairs*pairCost)
	all := []need{
		{"a core of a server", (micros/masters + members) / 1e6, coreLimit, percent, mover},
		{"memory of a server", kept / masters, memoryLimit, size, "maxmemory; more masters; a shorter WithTokenFloor"},
		{"connections of a server", 2 * processes, connectionLimit, count, "maxclients; fewer processes with more goroutines"},
		{"network of a server, a second", bytes / masters, networkLimit, size, "a longer lease; more masters; shorter names"},
		{"memory of a process", heap, heapLimit, size, "more processes"},
		{"requests of a process, a second", sent, requestLimit, count, "more processes; a longer lease; one server without a cluster"},
	}
	if l.outage > 0 {
		all = append(all, l.afterOutage(renewal*float64(l.held)/masters/1e6))
	}
	slices.SortStableFunc(all, func(a, b need) int { return -compare(a.share(), b.share()) })
	return all
}

func compare(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// renewals a second: each lock is renewed at each third of its lease.
func (l load) renewals() float64 {
	if l.lease <= 0 {
		return 0
	}
	return float64(l.held) / (l.lease.Seconds() / 3)
}

// polls a second: a session polls each name that its goroutines wait for once a second.
func (l load) polls() float64 { return float64(min(l.waiters, max(l.waited, l.sessionsThatWait()))) }

// sessionsThatWait is how many tickets there are if each process waits for its share of the names.
func (l load) sessionsThatWait() int { return min(l.waiters, max(l.processes, l.waited)) }

// pollsOfARequest is how many names a session polls in one request.
func (l load) pollsOfARequest() float64 {
	if l.masters > 1 {
		return 1
	}
	return math.Max(1, math.Min(64, float64(l.waited)/float64(max(l.processes, 1))))
}

// movedBy says what lowers the largest cost of a core.
func movedBy(renewals, polls, members, pairs float64) string {
	switch max(renewals, polls, members, pairs) {
	case members:
		return "more groups, on several masters; fewer members"
	case pairs:
		return "WithKeepWarm, if a process uses its locks again; more masters"
	case polls:
		return "fewer names that sessions wait for; more masters"
	}
	return "a longer lease; more masters"
}

// afterOutage is the seconds in which a server renews all its locks at once, of the seconds that are left to the leases that were
// to be renewed when the server stopped. A process trusts a lease for a fiftieth less than the server.
func (l load) afterOutage(seconds float64) need {
	left := l.lease.Seconds()*(1-1./50-1./3) - l.outage.Seconds()
	return need{"renewing all after the outage, seconds", seconds, math.Max(left, 1e-3), seconds3, "a lease of 1.6 outages and some seconds; more masters"}
}

func percent(v float64) string {
	if v >= 1 {
		return fmt.Sprintf("%.0f %%", 100*v)
	}
	return fmt.Sprintf("%.2g %%", 100*v)
}

func count(v float64) string    { return fmt.Sprintf("%.0f", v) }
func seconds3(v float64) string { return fmt.Sprintf("%.3g", v) }

func size(v float64) string {
	for _, unit := range []struct {
		bytes float64
		name  string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if v >= unit.bytes {
			return fmt.Sprintf("%.3g %s", v/unit.bytes, unit.name)
		}
	}
	return fmt.Sprintf("%.0f B", v)
}
