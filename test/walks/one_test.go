// SPDX-License-Identifier: Apache-2.0

package walks_test

import (
	"fmt"

	"github.com/signalbox-go/signalbox/scripts"
)

// Kinds of which one hold has the lock and waiters have no tickets: reentrant locks, and one server
// of a quorum.

// reentrantKind is a reentrant lock.
type reentrantKind struct{ *walk }

func (k *reentrantKind) letter() string { return "r" }
func (k *reentrantKind) holder() string { return k.name + "lock" }
func (k *reentrantKind) keys() []string { return []string{k.holder()} }

func (k *reentrantKind) verbs() []verb {
	return []verb{tries, tries, enters, polls, leaves, leaves, renews, renews, withdraws, forces, yields}
}

// holdName is the name of the n-th hold of a session.
func holdName(session string, n int) string { return session + fmt.Sprintf("%019d", n) }

func (k *reentrantKind) fresh(session string) *attempt {
	return &attempt{hold: holdName(session, 1_000_000+k.made())}
}

func (k *reentrantKind) newcomer(session string) *attempt { return k.fresh(session) }

func (k *reentrantKind) ask(v verb, a *attempt) *request {
	key, life := k.keys(), a.lease
	switch v {
	case tries, enters:
		mark := ""
		if v == enters {
			mark = a.session
		}
		return k.request(v, a, acquired, scripts.ReentrantAcquire, key, a.hold+unmarked+label, life/1000, k.notAfter(), mark).gives(life)
	case polls:
		return k.request(v, nil, nothing, scripts.ReentrantLook, key, a.session)
	case withdraws:
		return k.request(v, a, nothing, scripts.ReentrantWithdraw, key, a.hold, "PUBLISH", k.name+"unlocked", k.keep())
	case forces:
		return k.request(v, a, forced, scripts.HolderForce, key, a.hold, "PUBLISH", k.name+"unlocked", k.name+"told", k.keep())
	}
	if a.stamp == "" || a.ended {
		return nil
	}
	switch v {
	case leaves:
		return k.request(v, a, nothing, scripts.ReentrantRelease, key, "sb1r"+a.stamp+a.hold+unmarked+label, a.stamp, "PUBLISH", k.name+"unlocked", k.keep())
	case renews:
		return k.request(v, a, lengthened, scripts.HolderRenew, key, a.hold, life/1000).gives(life)
	case yields:
		return k.request(v, a, yielded, scripts.ReentrantYield, key, a.hold, life/1000, a.stamp, "PUBLISH", k.name+"unlocked", k.keep()).gives(life)
	}
	return nil
}

// yielded reads the replies of a yield: whether a hold may be handed over further.
func yielded(r *request, reply any) outcome {
	n, list := code(reply)
	if n == 1 {
		return outcome{has: []grant{{r.who.hold, text(list, 1), r.sent, r.life}}}
	}
	return outcome{lost: true}
}

func (k *reentrantKind) probes(a *attempt) []*request {
	key := k.keys()
	gathered := func(r *request, reply any) outcome {
		_, list := code(reply)
		return acquired(r, list[0])
	}
	return []*request{
		k.ask(tries, a), k.ask(polls, a), k.ask(withdraws, a), k.ask(forces, a),
		k.request(tries, a, gathered, scripts.ReentrantGather, key, a.hold+unmarked+label, 1000, k.notAfter()),
		k.request(yields, a, yielded, scripts.ReentrantYield, key, a.hold, 1000, digits(noon), "PUBLISH", k.name+"unlocked", k.keep()),
		k.request(leaves, a, nothing, scripts.ReentrantRelease, key, "sb1r"+digits(noon)+a.hold+unmarked+label, digits(noon), "PUBLISH", k.name+"unlocked", k.keep()),
		k.request(renews, a, lengthened, scripts.HolderRenew, key, a.hold, 0),
		k.request(describes, nil, described, scripts.HolderDescribe, key),
	}
}

// described reads the holder of a lock.
func described(_ *request, reply any) outcome {
	switch n, list := code(reply); n {
	case -1:
		return outcome{kind: "?"}
	case 1:
		return outcome{kind: text(list, 1)}
	}
	return outcome{}
}

// quorumKind is one server's part of a lock that a quorum of servers gives.
type quorumKind struct{ reentrantKind }

func (k *quorumKind) letter() string { return "q" }

func (k *quorumKind) keys() []string {
	return []string{k.holder(), k.name + "epoch", k.name + "fence"}
}

func (k *quorumKind) verbs() []verb {
	return []verb{tries, tries, enters, polls, leaves, leaves, renews, renews, withdraws, fences, fences}
}

func (k *quorumKind) fresh(session string) *attempt {
	a := k.reentrantKind.fresh(session)
	a.hold = holdName(session, 2_000_000+k.made())
	return a
}

func (k *quorumKind) newcomer(session string) *attempt { return k.fresh(session) }

func (k *quorumKind) ask(v verb, a *attempt) *request {
	life := a.lease
	switch v {
	case tries, enters:
		mark := ""
		if v == enters {
			mark = a.session
		}
		return k.request(v, a, acquired, scripts.RedlockAcquire, k.keys(), a.hold+unmarked+label, life/1000, k.notAfter(), mark, longestLease).gives(life)
	case polls:
		return k.request(v, nil, nothing, scripts.RedlockLook, k.keys()[:1], a.session)
	case leaves, withdraws:
		floor := digits(0)
		if v == leaves && a.stamp != "" {
			floor = a.stamp
		}
		return k.request(v, a, nothing, scripts.RedlockRelease, k.keys()[:1], a.hold, floor, "PUBLISH", k.name+"unlocked", k.keep())
	case renews:
		if !a.ended {
			return k.request(v, a, lengthened, scripts.HolderRenew, k.keys()[:1], a.hold, life/1000).gives(life)
		}
	case fences:
		if a.stamp != "" {
			return k.request(v, a, nothing, scripts.RedlockFence, []string{k.holder(), k.name + "fence"}, a.hold, a.stamp)
		}
	}
	return nil
}

func (k *quorumKind) probes(a *attempt) []*request {
	fenced := *a
	fenced.stamp = digits(noon)
	return []*request{
		k.ask(tries, a), k.ask(polls, a), k.ask(leaves, a), k.ask(renews, a), k.ask(fences, &fenced),
		k.request(describes, nil, described, scripts.HolderDescribe, k.keys()[:1]),
	}
}
