// SPDX-License-Identifier: Apache-2.0

package walks_test

import (
	"fmt"
	"strings"

	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

// What kinds with tickets have in common, and read-write locks.

// enterArgs are the arguments that an acquire of every kind with tickets has.
func (w *walk) enterArgs(ticket string, life int64, queues string) []any {
	number := ""
	if queues == "1" && (w.ends || w.IntN(8) > 0) {
		number = w.heartbeat()
	}
	return []any{ticket, life, w.notAfter(), queues, waitingLife, number, label, "PUBLISH", w.name + "grants:", w.keep()}
}

// lockEnterArgs are the arguments of an exclusive lock's acquire.
func (w *walk) lockEnterArgs(ticket string, life int64, queues string) []any {
	a := w.enterArgs(ticket, life, queues)
	return []any{ticket + "-", life / 1000, a[2], label, fmt.Sprint(queues, " ", waitingLife, " ", a[5], " ", a[9], " PUBLISH ", a[8])}
}

// pollArgs are the arguments of a poll, and the holds that it lists: of the attempts of the session
// that wait as far as it knows.
func (w *walk) pollArgs(k lockKind, session string) (listed []string, args []any) {
	var names strings.Builder
	for _, a := range w.attempts {
		if a.kind == k && a.session == session && !a.ended && a.until == 0 && (w.ends || w.IntN(8) > 0) {
			listed = append(listed, a.hold)
			names.WriteString(a.hold[22:])
		}
	}
	if len(listed) > 8 {
		listed = listed[len(listed)-8:]
		names.Reset()
		for _, hold := range listed {
			names.WriteString(hold[22:])
		}
	}
	return listed, []any{session, waitingLife, w.heartbeat(), label, "PUBLISH", w.name + "grants:", names.String(), w.keep()}
}

// rwKind is a read-write lock.
type rwKind struct{ *walk }

func (k *rwKind) letter() string { return "w" }

func (k *rwKind) keys() []string {
	return []string{k.name + "lock", k.name + "writers", k.name + "readers", k.name + "rwheartbeats"}
}

func (k *rwKind) verbs() []verb {
	return []verb{
		tries, enters, enters, enters, polls, polls, polls, leaves, leaves, withdraws, renews, renews, drops, forces, heartbeats, downgrades, shares,
	}
}

func (k *rwKind) fresh(session string) *attempt {
	a := &attempt{hold: holdName(session, 4_000_000+k.made()), side: reads}
	if k.IntN(3) == 0 {
		a.side = ""
	}
	return a
}

func (k *rwKind) newcomer(session string) *attempt {
	a := k.fresh(session)
	a.side = ""
	return a
}

func (k *rwKind) requestOf(v verb, a *attempt) *request {
	life, name, grants, mode := a.lease, a.hold+label, k.name+"grants:", writes
	if a.side == reads {
		mode = reads
	}
	switch v {
	case tries:
		return k.request(v, a, acquired, scripts.RWLockEnter, k.keys(), append(k.enterArgs(a.hold, life, "0"), mode)...).gives(life)
	case enters:
		return k.request(v, a, acquired, scripts.RWLockEnter, k.keys(), append(k.enterArgs(a.hold, life, "1"), mode)...).gives(life)
	case polls:
		listed, args := k.pollArgs(k, a.session)
		return k.request(v, nil, k.polled(a.session, listed), scripts.RWLockPoll, k.keys(), args...)
	case leaves, withdraws:
		return k.request(v, a, k.left, scripts.RWLockLeave, k.keys(), name, a.session, "PUBLISH", grants, k.keep())
	case drops:
		return k.request(v, a, nothing, scripts.HoldsDrop, k.keys()[:1], name)
	case forces:
		return k.request(v, a, forced, scripts.RWLockForce, k.keys(), "PUBLISH", grants, k.name+"told:", a.session+"\n"+name+"\n", k.keep())
	case heartbeats:
		return k.request(v, nil, nothing, scripts.QueueHeartbeat, k.keys()[3:], a.session, waitingLife, k.heartbeat(), label)
	case shares:
		return k.request(v, a, nothing, scripts.RWLockMayShare, k.keys(), name)
	}
	if a.ended || a.stamp == "" {
		return nil
	}
	switch v {
	case renews:
		return k.request(v, a, lengthened, scripts.HoldsRenew, k.keys()[:1], name, life/1000).gives(life)
	case downgrades:
		return k.request(v, a, k.left, scripts.RWLockDowngrade, k.keys(), name, a.session, "PUBLISH", grants, k.keep())
	}
	return nil
}

func (k *rwKind) probes(a *attempt) []*request {
	granted, writer := *a, *a
	granted.stamp, a.side, writer.side = digits(noon), reads, ""
	return []*request{
		k.requestOf(tries, a), k.requestOf(enters, a), k.requestOf(tries, &writer), k.requestOf(enters, &writer), k.requestOf(polls, a), k.requestOf(leaves, a), k.requestOf(drops, a),
		k.requestOf(forces, a), k.requestOf(heartbeats, a), k.requestOf(shares, a), k.requestOf(renews, &granted), k.requestOf(downgrades, &granted),
		k.request(describes, nil, described, scripts.HolderDescribe, k.keys()[:1]),
		k.request(describes, a, listed, scripts.HoldsList, k.keys()[:1], "sb1w", 0, 100),
	}
}

// listed reads the list of holds.
func listed(_ *request, reply any) outcome {
	if n, list := code(reply); n == wire.Foreign {
		return outcome{kind: text(list, 1)}
	}
	return outcome{}
}
