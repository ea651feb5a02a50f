// SPDX-License-Identifier: Apache-2.0

package walks_test

import (
	"fmt"
	"slices"

	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

// The modes of an exclusive lock: a ticket is for a turn of its session, for one whose hold may be idle, or for one goroutine; and the first
// and the last of them for a holder that learns of waiters.
const turn, idle, ordered, toldTurn, toldOrdered = "r", "k", "f", "R", "F"

// block is how many tokens behind its first one a hold owns.
const block = 255

// exclusiveKind is an exclusive lock: reentrant and fair locks of one name.
type exclusiveKind struct{ *walk }

func (k *exclusiveKind) letter() string { return "l" }
func (k *exclusiveKind) grants() string { return k.name + "grants:" }

func (k *exclusiveKind) keys() []string {
	return []string{k.name + "lock", k.name + "queue", k.name + "heartbeats"}
}

// reach returns the keys that a request declares: the holder alone if the slot is being moved.
func (k *exclusiveKind) reach() []string {
	if !k.ends && k.IntN(8) == 0 {
		return k.keys()[:1]
	}
	return k.keys()
}

func (k *exclusiveKind) verbs() []verb {
	return []verb{
		tries, enters, enters, enters, polls, polls, polls, leaves, leaves, withdraws, renews, renews, drops, forces, heartbeats,
		requeues, requeues, acquiresMany, releasesMany, frees, frees,
	}
}

// fresh returns an attempt whose hold is named by its ticket: the hold, and the mode.
func (k *exclusiveKind) fresh(session string) *attempt {
	return &attempt{hold: holdName(session, 1_000_000+k.made()) + []string{turn, idle, ordered, toldTurn, toldOrdered}[k.IntN(5)], blocks: true}
}

func (k *exclusiveKind) newcomer(session string) *attempt { return k.fresh(session) }

func (k *exclusiveKind) requestOf(v verb, a *attempt) *request {
	life := a.lease
	switch v {
	case tries:
		return k.request(v, a, k.alone, scripts.LockEnter, k.reach(), k.lockEnterArgs(a.hold, life, "0")...).gives(life)
	case enters:
		keys, args := k.reach(), k.lockEnterArgs(a.hold, life, "1")
		if !k.ends && k.IntN(8) == 0 {
			keys, args = keys[:1], args[:4]
		}
		return k.request(v, a, acquired, scripts.LockEnter, keys, args...).gives(life)
	case acquiresMany:
		return k.request(v, a, k.acquiredMany, scripts.LockAcquireMany, k.keys()[:1], a.hold, life/1000, k.notAfter(), label).gives(life)
	case polls:
		listed, args := k.pollArgs(k, a.session)
		return k.request(v, nil, k.polled(a.session, listed), scripts.LockPoll, k.reach(), args...)
	case leaves, withdraws, drops:
		return k.leave(v, a)
	case releasesMany:
		used := k.used(a)
		read := func(_ *request, reply any) outcome {
			_, list := code(reply)
			k.released(used, list[0] == int64(1))
			return outcome{}
		}
		return k.request(v, a, read, scripts.LockReleaseMany, k.keys()[:1], a.hold, used, k.keep())
	case frees:
		return k.free(a)
	case forces:
		return k.request(v, a, forced, scripts.LockForce, k.reach(), a.hold[:41], "PUBLISH", k.grants(), k.name+"told", k.keep())
	case heartbeats:
		return k.request(v, nil, nothing, scripts.QueueHeartbeat, k.keys()[2:], a.session, waitingLife, k.heartbeat(), label)
	case renews:
		if !a.ended && a.stamp != "" {
			return k.request(v, a, lengthened, k.renewal(a), k.keys()[:1], a.hold, life/1000).gives(life)
		}
	case requeues:
		if !a.ended && a.stamp != "" {
			return k.requeue(a)
		}
	}
	return nil
}

// renewal returns the script that renews a.
func (k *exclusiveKind) renewal(a *attempt) *scripts.Script {
	if a.hold[41:] == idle && k.IntN(4) > 0 { // multilocks renew by the other script
		return scripts.LockKeep
	}
	return scripts.HolderRenew
}

// recalls checks a request that found a hold which may be idle, on a key without a mark. P6: what marks the key, or fails because
// of the hold, recalls that.
func (w *walk) recalls(r *request, a *result) {
	w.Helper()
	before, after := a.before, a.after
	if len(before) < 63 || before[:4] != "sb1l" || before[61:63] != idle+"-" || len(after) != len(before) || after[:62] != before[:62] {
		return
	}
	n, _ := code(a.reply)
	isShort := r.script == scripts.LockEnter && len(r.args) == 4 // the whole one follows
	fails := !isShort && (r.verb == tries || r.verb == enters) && r.script == scripts.LockEnter && (n == wire.NotDone || n == wire.NeedsQueue)
	if isMarked := after[62] == 'q'; !isMarked && !fails {
		return
	}
	if !slices.Contains(a.said, message{"sb:session:" + before[20:42], "recall:" + before[42:61]}) {
		w.fail("%s is not recalled", before[20:62])
	}
}

// used returns the last token that a used, or "" if that is not known.
func (k *exclusiveKind) used(a *attempt) string {
	if a.stamp == "" || k.IntN(4) == 0 {
		return ""
	}
	return digits(stampOf(a.stamp) + k.Int64N(block+1))
}

// leave ends an attempt, with the holder alone if it drops it.
func (k *exclusiveKind) leave(v verb, a *attempt) *request {
	keys, used := k.reach(), k.used(a)
	if v == drops {
		keys = k.keys()[:1]
	}
	read := func(r *request, reply any) outcome {
		n, _ := code(reply)
		k.released(used, n == wire.Done || n == wire.MayQueue)
		return k.left(r, reply)
	}
	return k.request(v, a, read, scripts.LockLeave, keys, a.hold, a.session, "PUBLISH", k.grants(), k.keep(), used, "0")
}

// free is the short release of a hold without a mark.
func (k *exclusiveKind) free(a *attempt) *request {
	if a.stamp == "" {
		return nil
	}
	used := k.used(a)
	read := func(_ *request, reply any) outcome {
		n, _ := code(reply)
		k.released(used, n == wire.Done)
		return outcome{}
	}
	return k.request(frees, a, read, scripts.LockFree, k.keys()[:1], a.hold+"-", k.keep(), used)
}

// requeue releases the hold of an attempt and queues another of its session.
func (k *exclusiveKind) requeue(old *attempt) *request {
	next := k.attempt(k, old.session, k.fresh)
	next.hold = next.hold[:41] + old.hold[41:]
	k.byHold[next.hold] = next
	next.lease = old.lease
	used := k.used(old)
	read := func(r *request, reply any) outcome {
		n, list := code(reply)
		if n >= wire.NotDone {
			k.released(used, list[len(list)-1] == int64(1))
		}
		switch n {
		case wire.NotDone:
			return outcome{has: k.grantsIn(next.session, text(list, 4)), more: text(list, 2) == "1"}
		case wire.ReleasedOnly:
			return outcome{}
		default:
			return acquired(r, reply)
		}
	}
	r := k.request(requeues, next, read, scripts.LockRequeue, k.reach(), old.hold, next.hold, next.lease, k.notAfter(), waitingLife, k.heartbeat(),
		label, "PUBLISH", k.grants(), k.keep(), used, "0").gives(next.lease)
	r.old = old
	return r
}

// released records the release of a hold whose last token is known: later tokens of its block may be given
// to others.
func (k *exclusiveKind) released(used string, had bool) { //nolint:revive // a fact, not a switch
	if had && used != "" {
		k.top = min(k.top, stampOf(used))
	}
}

// alone reads the reply to a try. P1 and the order of the queue: as long as nothing was lost a try
// takes the lock before no ticket of a session that is alive.
func (k *exclusiveKind) alone(r *request, reply any) outcome {
	k.Helper()
	o := acquired(r, reply)
	if len(o.has) == 0 || r.who.issued > 0 || k.calm > 0 || r.who.session == sessionOf(20) {
		return o
	}
	if k.expiries(k.keys()[1:2])[0] == -2 {
		return o
	}
	tickets, _ := k.do("ZRANGE", k.keys()[1], 0, -1).([]any)
	for _, ticket := range tickets {
		session := fmt.Sprint(ticket)[:22]
		life, _ := k.do("HGET", k.keys()[2], session).(string)
		// A heartbeat alone keeps no mark: that ends 15 s after the hold, or after the last poll.
		// A ticket that a late copy of its requeue made waits for nothing but itself.
		isOwn := fmt.Sprint(ticket) == r.who.hold
		if !isOwn && life != "" && stampOf(life[:16]) > k.clock && k.polledAt[session] > k.clock-15*second {
			k.fail("%s has the lock before %s, which waits", r.who.hold, ticket)
		}
	}
	return o
}

// acquiredMany reads the reply for the one key of acquire-many.
func (k *exclusiveKind) acquiredMany(r *request, reply any) outcome {
	_, list := code(reply)
	return k.alone(r, list[0])
}

func (k *exclusiveKind) probes(a *attempt) []*request {
	probes := []*request{
		k.request(renews, a, lengthened, scripts.HolderRenew, k.keys()[:1], a.hold, 0),
		k.request(renews, a, lengthened, scripts.LockKeep, k.keys()[:1], a.hold, 0),
		k.request(describes, a, nothing, scripts.LockWaiters, k.keys()[1:], 0, 100, 42),
		k.request(describes, nil, described, scripts.HolderDescribe, k.keys()[:1]),
		k.requestOf(releasesMany, a), k.requestOf(heartbeats, a),
	}
	for _, keys := range [][]string{k.keys(), k.keys()[:1]} {
		for _, v := range []verb{tries, enters, polls, leaves, forces} {
			r := k.requestOf(v, a)
			r.keys = keys
			probes = append(probes, r)
		}
		next := k.fresh(a.session)
		probes = append(probes, k.request(requeues, a, nothing, scripts.LockRequeue, keys, a.hold, next.hold, second, k.notAfter(), waitingLife,
			k.heartbeat(), label, "PUBLISH", k.grants(), k.keep(), "", "0"))
	}
	return append(probes, k.requestOf(acquiresMany, a))
}
