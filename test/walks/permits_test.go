// SPDX-License-Identifier: Apache-2.0

package walks_test

import (
	"fmt"

	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

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
		return k.request(v, a, acquired, scripts.SemaphoreEnter, k.keys(), append(k.enterArgs(a.hold, life, "0"), capacity, "0")...).gives(life)
	case enters:
		return k.request(v, a, acquired, scripts.SemaphoreEnter, k.keys(), append(k.enterArgs(a.hold, life, "1"), capacity, "0")...).gives(life)
	case polls:
		listed, args := k.pollArgs(k, a.session)
		return k.request(v, nil, k.polled(a.session, listed), scripts.SemaphorePoll, k.keys(), args...)
	case leaves, withdraws:
		return k.request(v, a, k.left, scripts.SemaphoreLeave, k.keys(), name, a.session, "PUBLISH", grants, k.keep())
	case drops:
		return k.request(v, a, nothing, scripts.HoldsDrop, k.keys()[:1], name)
	case heartbeats:
		return k.request(v, nil, nothing, scripts.QueueHeartbeat, k.keys()[2:], a.session, waitingLife, k.heartbeat(), label)
	case resizes:
		n := 1 + k.IntN(6)
		return k.request(v, nil, k.sized(n), scripts.SemaphoreResize, k.keys(), n, k.notAfter(), "PUBLISH", grants, k.keep())
	}
	if a.ended || a.stamp == "" {
		return nil
	}
	switch v {
	case renews:
		return k.request(v, a, lengthened, scripts.HoldsRenew, k.keys()[:1], name, life/1000).gives(life)
	case yields:
		return k.request(v, a, k.handedOver, scripts.SemaphoreYield, k.keys(), name, life, "", a.session, "PUBLISH", grants, k.keep()).gives(life)
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
	r := k.request(splits, fewer, read, scripts.SemaphoreSplit, k.keys(), fewer.hold, life, k.notAfter(), a.hold+label, a.session, "PUBLISH", k.name+"grants:", k.keep())
	a.weight = fewer.weight
	return r.gives(life)
}

func (k *permitKind) probes(a *attempt) []*request {
	name, grants := a.hold+label, k.name+"grants:"
	return []*request{
		k.requestOf(tries, a), k.requestOf(enters, a), k.requestOf(polls, a), k.requestOf(leaves, a), k.requestOf(drops, a), k.requestOf(heartbeats, a),
		k.request(renews, a, lengthened, scripts.HoldsRenew, k.keys()[:1], name, 0),
		k.request(yields, a, k.handedOver, scripts.SemaphoreYield, k.keys(), name, second, "", a.session, "PUBLISH", grants, k.keep()),
		k.request(splits, a, nothing, scripts.SemaphoreSplit, k.keys(), a.hold, second, k.notAfter(), name, a.session, "PUBLISH", grants, k.keep()),
		k.request(resizes, nil, listed, scripts.SemaphoreResize, k.keys(), capacity, k.notAfter(), "PUBLISH", grants, k.keep()),
		k.request(describes, a, listed, scripts.SemaphoreAvailable, k.keys()[:1]),
		k.request(describes, a, listed, scripts.HoldsList, k.keys()[:1], "sb1s", 0, 100),
		k.request(describes, a, nothing, scripts.LockWaiters, k.keys()[1:], 0, 100, 42),
	}
}
