// SPDX-License-Identifier: Apache-2.0

package walks_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

// Kinds in Redisson's layout.

// permitSize is the length of the id of a permit.
const permitSize = 16

// javaKind is what they share. Tokens come from the clock, or from a counter.
type javaKind struct{ *walk }

func (k *javaKind) letter() string { return "r" }
func (k *javaKind) keys() []string { return []string{k.name + "lock"} }

func (k *javaKind) fresh(session string) *attempt {
	c := session[:1]
	return &attempt{hold: fmt.Sprintf("%08s-0000-0000-0000-%012s:%019d", c, c, 1_000_000_000_000_000_000+k.made())}
}

func (k *javaKind) newcomer(session string) *attempt { return k.fresh(session) }

func (k *javaKind) channel() string { return k.name + "channel" }

// sharedKind is an RLock, or if it is fenced an RFencedLock.
type sharedKind struct {
	javaKind

	fenced bool
}

func (k *sharedKind) keys() []string {
	if k.fenced {
		return []string{k.name + "token", k.name + "lock"}
	}
	return k.javaKind.keys()
}

func (k *sharedKind) verbs() []verb {
	return []verb{tries, tries, enters, polls, leaves, leaves, renews, renews, withdraws, forces}
}

func (k *sharedKind) requestOf(v verb, a *attempt) *request {
	key, life := []string{k.name + "lock"}, a.lease
	switch v {
	case tries, enters:
		if k.fenced {
			return k.request(v, a, counted, scripts.Load("redisson/fence", 1), []string{k.name + "lock", k.name + "token"}, a.hold, life/1000, k.notAfter(), "PUBLISH", k.channel(), "0").gives(life)
		}
		return k.request(v, a, unstamped, scripts.Load("redisson/acquire", 1), key, a.hold, life/1000, k.notAfter(), "PUBLISH", k.channel(), "0").gives(life)
	case polls:
		return k.request(v, nil, nothing, scripts.Load("redisson/poll", 1), key, "")
	case leaves, withdraws:
		return k.request(v, a, nothing, scripts.Load("redisson/release", 1), key, a.hold, "PUBLISH", k.channel())
	case forces:
		return k.request(v, a, forced, scripts.Load("redisson/force", 1), key, a.hold, "PUBLISH", k.channel(), k.name+"told")
	}
	if a.ended || a.issued == 0 {
		return nil
	}
	if v == renews {
		return k.request(v, a, lengthened, scripts.Load("redisson/renew", 1), key, a.hold, life/1000).gives(life)
	}
	return nil
}

// unstamped reads the replies to an acquire whose token is the time, of a clock that may be set: it
// is not checked.
func unstamped(r *request, reply any) outcome {
	o := acquired(r, reply)
	for i := range o.has {
		o.has[i].stamp = ""
	}
	return o
}

// counted reads the replies to an acquire with a number of the counter.
func counted(r *request, reply any) outcome {
	if n, list := code(reply); n == wire.Done {
		return outcome{has: []grant{{r.who.hold, digits(list[2].(int64)), r.sent, r.life}}}
	}
	return acquired(r, reply)
}

func (k *sharedKind) probes(a *attempt) []*request {
	key := []string{k.name + "lock"}
	return []*request{
		k.requestOf(tries, a), k.requestOf(polls, a), k.requestOf(leaves, a), k.requestOf(forces, a),
		k.request(renews, a, lengthened, scripts.Load("redisson/renew", 1), key, a.hold, 0),
		k.request(describes, nil, described, scripts.Load("redisson/describe", 1), key),
	}
}

// fairWait is how many milliseconds a ticket in the queue of a RedissonFairLock is valid.
const fairWait = 300_000

// javaFairKind is a RedissonFairLock.
type javaFairKind struct{ javaKind }

func (k *javaFairKind) keys() []string {
	return []string{k.name + "lock", k.name + "queue", k.name + "deadlines"}
}

func (k *javaFairKind) verbs() []verb {
	return []verb{tries, enters, enters, enters, leaves, leaves, renews, renews, withdraws, forces}
}

func (k *javaFairKind) requestOf(v verb, a *attempt) *request {
	life := a.lease
	switch v {
	case tries, enters:
		waits := map[verb]string{tries: "0", enters: "1"}[v]
		return k.request(v, a, unstamped, scripts.Load("redisson/fair-acquire", 1), k.keys(), a.hold, life/1000, k.notAfter(), "PUBLISH", k.channel()+":", waits, fairWait).gives(life)
	case leaves, withdraws:
		return k.request(v, a, nothing, scripts.Load("redisson/fair-release", 1), k.keys(), a.hold, "PUBLISH", k.channel()+":", fairWait)
	case forces:
		return k.request(v, a, forced, scripts.Load("redisson/fair-force", 1), k.keys(), a.hold, "PUBLISH", k.channel()+":", k.name+"told")
	case renews:
		if !a.ended {
			return k.request(v, a, lengthened, scripts.Load("redisson/renew", 1), k.keys()[:1], a.hold, life/1000).gives(life)
		}
	}
	return nil
}

func (k *javaFairKind) probes(a *attempt) []*request {
	return []*request{
		k.requestOf(tries, a), k.requestOf(enters, a), k.requestOf(leaves, a), k.requestOf(forces, a), k.requestOf(renews, a),
		k.request(describes, nil, described, scripts.Load("redisson/describe", 1), k.keys()[:1]),
		k.request(describes, a, nothing, scripts.Load("redisson/fair-waiters", 1), k.keys()[1:], 0, 100),
	}
}

// javaRWKind is an RReadWriteLock.
type javaRWKind struct{ javaKind }

func (k *javaRWKind) letter() string { return "w" }

// keys returns the hash, and the keys beside it of readers that came lately.
func (k *javaRWKind) keys() []string {
	all := []string{k.name + "lock"}
	for _, a := range slices.Backward(k.attempts) {
		if len(all) < 6 && a.kind == lockKind(k) {
			all = append(all, k.name+"lock:"+a.hold+":rwlock_timeout:1")
		}
	}
	return all
}

func (k *javaRWKind) verbs() []verb {
	return []verb{tries, enters, enters, polls, leaves, leaves, renews, renews, withdraws, forces, downgrades, shares}
}

func (k *javaRWKind) fresh(session string) *attempt {
	a := k.javaKind.fresh(session)
	if k.IntN(3) > 0 {
		a.side = reads
	}
	return a
}

func (k *javaRWKind) requestOf(v verb, a *attempt) *request {
	key, life, side := []string{k.name + "lock"}, a.lease, writes
	if a.side == reads {
		side = reads
	}
	switch v {
	case tries, enters:
		return k.request(v, a, unstamped, scripts.Load("redisson/rwlock-acquire", 1), key, a.hold, life/1000, k.notAfter(), "PUBLISH", k.channel(), "0", side).gives(life)
	case polls:
		return k.request(v, nil, nothing, scripts.Load("redisson/rwlock-poll", 1), key, "")
	case leaves, withdraws:
		return k.request(v, a, nothing, scripts.Load("redisson/rwlock-release", 1), key, a.hold, "PUBLISH", k.channel())
	case forces:
		return k.request(v, a, forced, scripts.Load("redisson/rwlock-force", 1), key, "PUBLISH", k.channel(), k.name+"told:", a.session+"\n"+a.hold+"\n")
	case shares:
		return k.request(v, a, nothing, scripts.Load("redisson/rwlock-may-share", 1), key, a.hold)
	}
	if a.ended || a.issued == 0 && v == downgrades {
		return nil
	}
	switch v {
	case renews:
		return k.request(v, a, lengthened, scripts.Load("redisson/rwlock-renew", 1), key, a.hold, life/1000).gives(life)
	case downgrades:
		return k.request(v, a, nothing, scripts.Load("redisson/rwlock-downgrade", 1), key, a.hold, a.session, "PUBLISH", k.channel())
	}
	return nil
}

func (k *javaRWKind) probes(a *attempt) []*request {
	key, granted := []string{k.name + "lock"}, *a
	granted.issued = 1
	return []*request{
		k.requestOf(tries, a), k.requestOf(polls, a), k.requestOf(leaves, a), k.requestOf(forces, a), k.requestOf(shares, a), k.requestOf(renews, a), k.requestOf(downgrades, &granted),
		k.request(describes, nil, described, scripts.Load("redisson/describe", 1), key),
		k.request(describes, a, listed, scripts.Load("redisson/rwlock-list", 1), key, "", 0, 100),
	}
}

// javaPermitKind is an RPermitExpirableSemaphore.
type javaPermitKind struct{ javaKind }

func (k *javaPermitKind) letter() string { return "s" }
func (k *javaPermitKind) keys() []string { return []string{k.name + "permits", k.name + "timeouts"} }

func (k *javaPermitKind) verbs() []verb {
	return []verb{tries, tries, enters, leaves, leaves, renews, renews, withdraws, resizes, splits, forces}
}

func (k *javaPermitKind) fresh(session string) *attempt { return k.weighs(session, 1+k.IntN(3)) }

// newcomer wants all permits that there are: none may have been lost.
func (k *javaPermitKind) newcomer(session string) *attempt {
	return k.weighs(session, k.sizes[len(k.sizes)-1].permits)
}

func (k *javaPermitKind) weighs(session string, weight int) *attempt {
	return &attempt{hold: fmt.Sprintf("%.4s%08d%010d", session, k.made(), weight), side: permit, weight: weight}
}

func (k *javaPermitKind) requestOf(v verb, a *attempt) *request {
	life := a.lease
	switch v {
	case tries, enters:
		return k.request(v, a, unstamped, scripts.Load("redisson/permit-acquire", 1), k.keys(), a.hold, life/1000, k.notAfter(), "PUBLISH", k.channel(), "0", capacity, "0", "1").gives(life)
	case leaves, withdraws:
		return k.request(v, a, nothing, scripts.Load("redisson/permit-release", 1), k.keys(), a.hold, "PUBLISH", k.channel())
	case resizes:
		n := 1 + k.IntN(6)
		return k.request(v, nil, k.sized(n), scripts.Load("redisson/permit-resize", 1), k.keys(), n, k.notAfter(), "PUBLISH", k.channel())
	case forces:
		ids := idsOf(a)
		read := func(_ *request, reply any) outcome {
			n, _ := code(reply)
			all := n == wire.Code(len(ids)/permitSize)
			return outcome{taken: all, unknown: !all && n != 0} // a hold has all of its permits, or has ended
		}
		return k.request(v, a, read, scripts.Load("redisson/permit-force", 1), k.keys(), "PUBLISH", k.channel(), k.name+"told:", a.session, ids)
	}
	if a.ended || a.until == 0 {
		return nil
	}
	switch v {
	case renews:
		return k.request(v, a, lengthened, scripts.Load("redisson/permit-renew", 1), k.keys()[1:], a.hold, life/1000).gives(life)
	case splits:
		return k.split(a, life)
	}
	return nil
}

// idsOf returns the ids of all permits of a hold.
func idsOf(a *attempt) string {
	var ids strings.Builder
	n, _ := strconv.Atoi(a.hold[12:])
	for i := range n {
		ids.WriteString(a.hold[:12] + string([]byte{0, 0, 0, byte(i + 1)}))
	}
	return ids.String()
}

// split returns the request to keep a part of the permits of a. From then on the session uses no
// more than that part.
func (k *javaPermitKind) split(a *attempt, life int64) *request {
	if a.weight < 2 {
		return nil
	}
	fewer := k.weighs(a.session, 1+k.IntN(a.weight-1))
	fewer.kind, fewer.session, fewer.origin, fewer.lease = k, a.session, a.origin, a.lease
	k.add(fewer)
	a.weight = fewer.weight
	read := func(r *request, reply any) outcome {
		n, _ := code(reply)
		a.ended = a.ended || n == wire.NotDone || n == wire.Done
		return unstamped(r, reply)
	}
	return k.request(splits, fewer, read, scripts.Load("redisson/permit-split", 1), k.keys(), fewer.hold, life/1000, k.notAfter(), a.hold, "PUBLISH", k.channel(), capacity, "0", "1").gives(life)
}

func (k *javaPermitKind) probes(a *attempt) []*request {
	return []*request{
		k.requestOf(tries, a), k.requestOf(leaves, a), k.requestOf(forces, a),
		k.request(renews, a, lengthened, scripts.Load("redisson/permit-renew", 1), k.keys()[1:], a.hold, 0),
		k.request(resizes, nil, listed, scripts.Load("redisson/permit-resize", 1), k.keys(), capacity, k.notAfter(), "PUBLISH", k.channel()),
		k.request(splits, a, unstamped, scripts.Load("redisson/permit-split", 1), k.keys(), a.hold, 1000, k.notAfter(), k.fresh(a.session).hold, "PUBLISH", k.channel(), capacity, "0", "1"),
		k.request(describes, a, listed, scripts.Load("redisson/permit-available", 1), k.keys()),
		k.request(describes, a, listed, scripts.Load("redisson/permit-list", 1), k.keys()[1:], "", 0, 100),
	}
}

// valueKind is a lock that other clients write by SET with NX.
type valueKind struct{ javaKind }

func (k *valueKind) fresh(session string) *attempt {
	return &attempt{hold: fmt.Sprintf("%022s%019d", session[:1], k.made())}
}

func (k *valueKind) newcomer(session string) *attempt { return k.fresh(session) }

func (k *valueKind) verbs() []verb {
	return []verb{tries, tries, enters, polls, leaves, leaves, renews, renews, withdraws, forces}
}

func (k *valueKind) requestOf(v verb, a *attempt) *request {
	key, life := k.keys(), a.lease
	switch v {
	case tries, enters:
		return k.request(v, a, unstamped, scripts.Load("setnx/acquire", 1), key, a.hold, life/1000, k.notAfter(), "PUBLISH", k.channel(), "0").gives(life)
	case polls:
		return k.request(v, nil, nothing, scripts.Load("setnx/poll", 1), key, "")
	case leaves, withdraws:
		return k.request(v, a, nothing, scripts.Load("setnx/release", 1), key, a.hold, "PUBLISH", k.channel())
	case forces:
		return k.request(v, a, forced, scripts.Load("setnx/force", 1), key, a.hold, "PUBLISH", k.channel(), k.name+"told")
	}
	if v != renews || a.ended || a.issued == 0 {
		return nil
	}
	return k.request(v, a, lengthened, scripts.Load("setnx/renew", 1), key, a.hold, life/1000).gives(life)
}

func (k *valueKind) probes(a *attempt) []*request {
	return []*request{
		k.requestOf(tries, a), k.requestOf(polls, a), k.requestOf(leaves, a), k.requestOf(forces, a),
		k.request(renews, a, lengthened, scripts.Load("setnx/renew", 1), k.keys(), a.hold, 0),
		k.request(describes, nil, described, scripts.Load("setnx/describe", 1), k.keys()),
	}
}
