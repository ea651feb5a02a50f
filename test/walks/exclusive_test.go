// SPDX-License-Identifier: Apache-2.0

package walks_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/signalbox-go/signalbox/internal/proto"
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
		return k.request(v, a, k.alone, proto.LockEnterScript, k.reach(), k.lockEnterArgs(a.hold, life, "0")...).gives(life)
	case enters:
		keys, args := k.reach(), k.lockEnterArgs(a.hold, life, "1")
		if !k.ends && k.IntN(8) == 0 {
			keys, args = keys[:1], args[:4]
		}
		return k.request(v, a, acquired, proto.LockEnterScript, keys, args...).gives(life)
	case acquiresMany:
		return k.request(v, a, k.acquiredMany, proto.LockAcquireManyScript, k.keys()[:1], a.hold, life/1000, k.notAfter(), label).gives(life)
	case polls:
		listed, args := k.pollArgs(k, a.session)
		return k.request(v, nil, k.polled(a.session, listed), proto.LockPollScript, k.reach(), args...)
	case leaves, withdraws, drops:
		return k.leave(v, a)
	case releasesMany:
		used := k.used(a)
		read := func(_ *request, reply any) outcome {
			_, list := code(reply)
			k.released(used, list[0] == int64(1))
			return outcome{}
		}
		return k.request(v, a, read, proto.LockReleaseManyScript, k.keys()[:1], a.hold, used, k.keep())
	case frees:
		return k.free(a)
	case forces:
		return k.request(v, a, forced, proto.LockForceScript, k.reach(), a.hold[:41], "PUBLISH", k.grants(), k.name+"told", k.keep())
	case heartbeats:
		return k.request(v, nil, nothing, proto.QueueHeartbeatScript, k.keys()[2:], a.session, waitingLife, k.heartbeat(), label)
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
		return proto.LockKeepScript
	}
	return proto.HolderRenewScript
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
	isShort := r.script == proto.LockEnterScript && len(r.args) == 4 // the whole one follows
	fails := !isShort && (r.verb == tries || r.verb == enters) && r.script == proto.LockEnterScript && (n == wire.NotDone || n == wire.NeedsQueue)
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
	return k.request(v, a, read, proto.LockLeaveScript, keys, a.hold, a.session, "PUBLISH", k.grants(), k.keep(), used, "0")
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
	return k.request(frees, a, read, proto.LockFreeScript, k.keys()[:1], a.hold+"-", k.keep(), used)
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
	r := k.request(requeues, next, read, proto.LockRequeueScript, k.reach(), old.hold, next.hold, next.lease, k.notAfter(), waitingLife, k.heartbeat(),
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
		k.request(renews, a, lengthened, proto.HolderRenewScript, k.keys()[:1], a.hold, 0),
		k.request(renews, a, lengthened, proto.LockKeepScript, k.keys()[:1], a.hold, 0),
		k.request(describes, a, nothing, proto.LockWaitersScript, k.keys()[1:], 0, 100, 42),
		k.request(describes, nil, described, proto.HolderDescribeScript, k.keys()[:1]),
		k.requestOf(releasesMany, a), k.requestOf(heartbeats, a),
	}
	for _, keys := range [][]string{k.keys(), k.keys()[:1]} {
		for _, v := range []verb{tries, enters, polls, leaves, forces} {
			r := k.requestOf(v, a)
			r.keys = keys
			probes = append(probes, r)
		}
		next := k.fresh(a.session)
		probes = append(probes, k.request(requeues, a, nothing, proto.LockRequeueScript, keys, a.hold, next.hold, second, k.notAfter(), waitingLife,
			k.heartbeat(), label, "PUBLISH", k.grants(), k.keep(), "", "0"))
	}
	return append(probes, k.requestOf(acquiresMany, a))
}

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
		return k.request(v, a, acquired, proto.RWLockEnterScript, k.keys(), append(k.enterArgs(a.hold, life, "0"), mode)...).gives(life)
	case enters:
		return k.request(v, a, acquired, proto.RWLockEnterScript, k.keys(), append(k.enterArgs(a.hold, life, "1"), mode)...).gives(life)
	case polls:
		listed, args := k.pollArgs(k, a.session)
		return k.request(v, nil, k.polled(a.session, listed), proto.RWLockPollScript, k.keys(), args...)
	case leaves, withdraws:
		return k.request(v, a, k.left, proto.RWLockLeaveScript, k.keys(), name, a.session, "PUBLISH", grants, k.keep())
	case drops:
		return k.request(v, a, nothing, proto.HoldsDropScript, k.keys()[:1], name)
	case forces:
		return k.request(v, a, forced, proto.RWLockForceScript, k.keys(), "PUBLISH", grants, k.name+"told:", a.session+"\n"+name+"\n", k.keep())
	case heartbeats:
		return k.request(v, nil, nothing, proto.QueueHeartbeatScript, k.keys()[3:], a.session, waitingLife, k.heartbeat(), label)
	case shares:
		return k.request(v, a, nothing, proto.RWLockMayShareScript, k.keys(), name)
	}
	if a.ended || a.stamp == "" {
		return nil
	}
	switch v {
	case renews:
		return k.request(v, a, lengthened, proto.HoldsRenewScript, k.keys()[:1], name, life/1000).gives(life)
	case downgrades:
		return k.request(v, a, k.left, proto.RWLockDowngradeScript, k.keys(), name, a.session, "PUBLISH", grants, k.keep())
	}
	return nil
}

func (k *rwKind) probes(a *attempt) []*request {
	granted, writer := *a, *a
	granted.stamp, a.side, writer.side = digits(noon), reads, ""
	return []*request{
		k.requestOf(tries, a), k.requestOf(enters, a), k.requestOf(tries, &writer), k.requestOf(enters, &writer), k.requestOf(polls, a), k.requestOf(leaves, a), k.requestOf(drops, a),
		k.requestOf(forces, a), k.requestOf(heartbeats, a), k.requestOf(shares, a), k.requestOf(renews, &granted), k.requestOf(downgrades, &granted),
		k.request(describes, nil, described, proto.HolderDescribeScript, k.keys()[:1]),
		k.request(describes, a, listed, proto.HoldsListScript, k.keys()[:1], "sb1w", 0, 100),
	}
}

// listed reads the list of holds.
func listed(_ *request, reply any) outcome {
	if n, list := code(reply); n == wire.Foreign {
		return outcome{kind: text(list, 1)}
	}
	return outcome{}
}

// capacity is how many permits a semaphore has at first.
const capacity = 4

// permitKind is a semaphore.
type permitKind struct{ *walk }

func (k *permitKind) letter() string { return "s" }

func (k *permitKind) keys() []string {
	return []string{k.name + "permits", k.name + "permits:queue", k.name + "permits:heartbeats"}
}

func (k *permitKind) verbs() []verb {
	return []verb{
		tries, enters, enters, enters, polls, polls, polls, leaves, leaves, withdraws, renews, renews, drops, heartbeats, yields, splits, resizes,
	}
}

func (k *permitKind) fresh(session string) *attempt {
	return k.weighs(session, 1+k.IntN(3))
}

// newcomer wants all permits that there are: none may have been lost.
func (k *permitKind) newcomer(session string) *attempt {
	return k.weighs(session, k.sizes[len(k.sizes)-1].permits)
}

// weighs returns an attempt to get so many permits.
func (k *permitKind) weighs(session string, weight int) *attempt {
	return &attempt{hold: holdName(session, 5_000_000+k.made()) + fmt.Sprintf("%010d", weight), side: permit, weight: weight}
}

func (k *permitKind) requestOf(v verb, a *attempt) *request {
	life, name, grants := a.lease, a.hold+label, k.name+"grants:"
	switch v {
	case tries:
		return k.request(v, a, acquired, proto.SemaphoreEnterScript, k.keys(), append(k.enterArgs(a.hold, life, "0"), capacity, "0")...).gives(life)
	case enters:
		return k.request(v, a, acquired, proto.SemaphoreEnterScript, k.keys(), append(k.enterArgs(a.hold, life, "1"), capacity, "0")...).gives(life)
	case polls:
		listed, args := k.pollArgs(k, a.session)
		return k.request(v, nil, k.polled(a.session, listed), proto.SemaphorePollScript, k.keys(), args...)
	case leaves, withdraws:
		return k.request(v, a, k.left, proto.SemaphoreLeaveScript, k.keys(), name, a.session, "PUBLISH", grants, k.keep())
	case drops:
		return k.request(v, a, nothing, proto.HoldsDropScript, k.keys()[:1], name)
	case heartbeats:
		return k.request(v, nil, nothing, proto.QueueHeartbeatScript, k.keys()[2:], a.session, waitingLife, k.heartbeat(), label)
	case resizes:
		n := 1 + k.IntN(6)
		return k.request(v, nil, k.sized(n), proto.SemaphoreResizeScript, k.keys(), n, k.notAfter(), "PUBLISH", grants, k.keep())
	}
	if a.ended || a.stamp == "" {
		return nil
	}
	switch v {
	case renews:
		return k.request(v, a, lengthened, proto.HoldsRenewScript, k.keys()[:1], name, life/1000).gives(life)
	case yields:
		return k.request(v, a, k.handedOver, proto.SemaphoreYieldScript, k.keys(), name, life, "", a.session, "PUBLISH", grants, k.keep()).gives(life)
	case splits:
		return k.split(a, life)
	}
	return nil
}

// sized reads the reply to a new number of permits.
func (w *walk) sized(n int) func(*request, any) outcome {
	return func(_ *request, reply any) outcome {
		switch done, list := code(reply); done {
		case wire.Done:
			w.sizes = append(w.sizes, sized{w.now, n})
			return outcome{}
		case wire.Late:
			return outcome{}
		case wire.Foreign:
			return outcome{kind: text(list, 1)}
		default:
			return outcome{unknown: true}
		}
	}
}

// handedOver reads the replies of a yield: whether permits may be handed over inside their process.
func (k *permitKind) handedOver(r *request, reply any) outcome {
	n, list := code(reply)
	switch n {
	case wire.Done:
		return outcome{has: []grant{{r.who.hold, text(list, 2), r.sent, r.life}}}
	case wire.ReleasedOnly:
		o := k.left(r, reply)
		o.lost = true
		return o
	case wire.NotDone:
		return outcome{lost: true}
	default:
		return outcome{unknown: true}
	}
}

// split returns the request to keep a part of the permits of a. From then on the session uses no
// more than that part.
func (k *permitKind) split(a *attempt, life int64) *request {
	if a.weight < 2 {
		return nil
	}
	fewer := k.weighs(a.session, 1+k.IntN(a.weight-1))
	fewer.kind, fewer.session, fewer.origin, fewer.lease = k, a.session, a.origin, a.lease
	k.add(fewer)
	read := func(r *request, reply any) outcome {
		n, list := code(reply)
		switch n {
		case wire.Done:
			o := k.left(r, reply)
			a.ended = true
			o.has = append(o.has, grant{fewer.hold, text(list, 4), r.sent, r.life})
			return o
		case wire.NotDone:
			a.ended = true
			return outcome{}
		case wire.Late:
			return outcome{}
		default:
			return outcome{unknown: true}
		}
	}
	r := k.request(splits, fewer, read, proto.SemaphoreSplitScript, k.keys(), fewer.hold, life, k.notAfter(), a.hold+label, a.session, "PUBLISH", k.name+"grants:", k.keep())
	a.weight = fewer.weight
	return r.gives(life)
}

func (k *permitKind) probes(a *attempt) []*request {
	name, grants := a.hold+label, k.name+"grants:"
	return []*request{
		k.requestOf(tries, a), k.requestOf(enters, a), k.requestOf(polls, a), k.requestOf(leaves, a), k.requestOf(drops, a), k.requestOf(heartbeats, a),
		k.request(renews, a, lengthened, proto.HoldsRenewScript, k.keys()[:1], name, 0),
		k.request(yields, a, k.handedOver, proto.SemaphoreYieldScript, k.keys(), name, second, "", a.session, "PUBLISH", grants, k.keep()),
		k.request(splits, a, nothing, proto.SemaphoreSplitScript, k.keys(), a.hold, second, k.notAfter(), name, a.session, "PUBLISH", grants, k.keep()),
		k.request(resizes, nil, listed, proto.SemaphoreResizeScript, k.keys(), capacity, k.notAfter(), "PUBLISH", grants, k.keep()),
		k.request(describes, a, listed, proto.SemaphoreAvailableScript, k.keys()[:1]),
		k.request(describes, a, listed, proto.HoldsListScript, k.keys()[:1], "sb1s", 0, 100),
		k.request(describes, a, nothing, proto.LockWaitersScript, k.keys()[1:], 0, 100, 42),
	}
}

// described reads the holder of a lock.
func described(r *request, reply any) outcome {
	switch n, list := code(reply); n {
	case wire.NotDone:
		return outcome{}
	case wire.Foreign:
		return outcome{kind: text(list, 1)}
	case wire.Done:
		kind := text(list, 1)
		if r.script == proto.HolderDescribeScript && strings.Contains(turn+idle+ordered+toldTurn+toldOrdered, kind) {
			kind = "l"
		}
		return outcome{kind: kind}
	default:
		return outcome{unknown: true}
	}
}

// quorumKind is one server's part of a lock that a quorum of servers gives.
type quorumKind struct{ *walk }

func (k *quorumKind) letter() string { return "q" }
func (k *quorumKind) holder() string { return k.name + "lock" }

func (k *quorumKind) keys() []string {
	return []string{k.holder(), k.name + "epoch", k.name + "fence"}
}

func (k *quorumKind) verbs() []verb {
	return []verb{tries, tries, enters, polls, leaves, leaves, renews, renews, withdraws, fences, fences, heals}
}

func (k *quorumKind) fresh(session string) *attempt {
	return &attempt{hold: holdName(session, 2_000_000+k.made())}
}

func (k *quorumKind) newcomer(session string) *attempt { return k.fresh(session) }

func (k *quorumKind) requestOf(v verb, a *attempt) *request {
	life := a.lease
	switch v {
	case tries, enters:
		mark := ""
		if v == enters {
			mark = a.session
		}
		return k.request(v, a, acquired, proto.RedlockAcquireScript, k.keys(), a.hold+unmarked+label, life/1000, k.notAfter(), mark, longestLease).gives(life)
	case polls:
		return k.request(v, nil, nothing, proto.RedlockPollScript, k.keys()[:1], a.session)
	case leaves, withdraws:
		floor := digits(0)
		if v == leaves && a.stamp != "" {
			floor = a.stamp
		}
		return k.request(v, a, nothing, proto.RedlockReleaseScript, k.keys()[:1], a.hold, floor, "PUBLISH", k.name+"unlocked", k.keep())
	case renews:
		if !a.ended {
			return k.request(v, a, lengthened, proto.HolderRenewScript, k.keys()[:1], a.hold, life/1000).gives(life)
		}
	case fences:
		if a.stamp != "" {
			return k.request(v, a, nothing, proto.RedlockFenceScript, []string{k.holder(), k.name + "fence"}, a.hold, a.stamp)
		}
	case heals:
		if a.stamp != "" {
			keys := []string{k.name + "epoch", k.holder(), k.name + "fence"}
			return k.request(v, a, nothing, proto.RedlockHealScript, keys, k.notAfter(), a.hold+unmarked+label, a.stamp, 0, longestLease, digits(0), "", "1")
		}
	}
	return nil
}

func (k *quorumKind) probes(a *attempt) []*request {
	fenced := *a
	fenced.stamp = digits(noon)
	return []*request{
		k.requestOf(tries, a), k.requestOf(polls, a), k.requestOf(leaves, a), k.requestOf(renews, a), k.requestOf(fences, &fenced), k.requestOf(heals, &fenced),
		k.request(describes, nil, described, proto.HolderDescribeScript, k.keys()[:1]),
	}
}
