// SPDX-License-Identifier: Apache-2.0

package walks_test

import (
	"strings"

	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

// described reads the holder of a lock.
func described(r *request, reply any) outcome {
	switch n, list := code(reply); n {
	case wire.NotDone:
		return outcome{}
	case wire.Foreign:
		return outcome{kind: text(list, 1)}
	case wire.Done:
		kind := text(list, 1)
		if r.script == scripts.HolderDescribe && strings.Contains(turn+idle+ordered+toldTurn+toldOrdered, kind) {
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
		return k.request(v, a, acquired, scripts.RedlockAcquire, k.keys(), a.hold+unmarked+label, life/1000, k.notAfter(), mark, longestLease).gives(life)
	case polls:
		return k.request(v, nil, nothing, scripts.RedlockPoll, k.keys()[:1], a.session)
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
	case heals:
		if a.stamp != "" {
			keys := []string{k.name + "epoch", k.holder(), k.name + "fence"}
			return k.request(v, a, nothing, scripts.RedlockHeal, keys, k.notAfter(), a.hold+unmarked+label, a.stamp, 0, longestLease, digits(0), "", "1")
		}
	}
	return nil
}

func (k *quorumKind) probes(a *attempt) []*request {
	fenced := *a
	fenced.stamp = digits(noon)
	return []*request{
		k.requestOf(tries, a), k.requestOf(polls, a), k.requestOf(leaves, a), k.requestOf(renews, a), k.requestOf(fences, &fenced), k.requestOf(heals, &fenced),
		k.request(describes, nil, described, scripts.HolderDescribe, k.keys()[:1]),
	}
}
