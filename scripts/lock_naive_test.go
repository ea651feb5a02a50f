// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"slices"
	"strings"
)

// naiveLock is an exclusive lock as it would be written if cost did not matter.
type naiveLock struct {
	naive

	key  naiveKey
	real func() []any // the tickets that the server has: when it takes out those that lost their positions is its own affair
}

// naiveKey is the holder key. It is there until ends, in milliseconds.
type naiveKey struct {
	hold     string // "" without a hold
	stamp    int64  // the hold's, or the floor
	ends     int64
	isMarked bool
}

func (nl *naiveLock) millis() int64 { return nl.now / 1000 }

// seen is the holder key as it is now: a key that has ended is missing.
func (nl *naiveLock) seen() naiveKey {
	if nl.key.ends <= nl.millis() {
		return naiveKey{}
	}
	return nl.key
}

// left returns how long the hold of a key lasts, in microseconds.
func (nl *naiveLock) left(k naiveKey) int64 {
	switch {
	case k.hold == "":
		return 0
	case k.isMarked:
		return max(k.ends-nl.millis()-keeps.Milliseconds(), 0) * 1000
	}
	return (k.ends - nl.millis()) * 1000
}

// bounded is the holder key as it is now, for a call that reads how long the hold lasts: one that would last longer than
// any was given ends sooner, since the clock was set back.
func (nl *naiveLock) bounded() naiveKey {
	k := nl.seen()
	if k.hold != "" {
		longest := int64(longestLife / 1000)
		if k.isMarked {
			longest += keeps.Milliseconds()
		}
		nl.key.ends = min(k.ends, nl.millis()+longest)
	}
	return nl.seen()
}

// floor is that of the next hold: behind the whole block of a hold that ended by itself.
func (nl *naiveLock) floor(k naiveKey) int64 {
	if k.hold != "" && nl.left(k) == 0 {
		return k.stamp + tokens
	}
	return k.stamp
}

// takes gives hold the lock, on a key without a mark.
func (nl *naiveLock) takes(hold string, floor, ms int64) {
	nl.key = naiveKey{hold: hold, stamp: max(nl.now, floor+1), ends: nl.millis() + ms}
}

// frees leaves the lock free. The mark stays if there is one.
func (nl *naiveLock) frees(floor int64) {
	if nl.key.isMarked {
		nl.key = naiveKey{stamp: floor, ends: nl.millis() + markLife.Milliseconds(), isMarked: true}
		return
	}
	nl.key = naiveKey{stamp: floor, ends: nl.millis() + floorLife.Milliseconds()}
}

// lengthens gives the hold ms from now, if that is longer.
func (nl *naiveLock) lengthens(ms int64) {
	if nl.key.isMarked {
		ms += keeps.Milliseconds()
	}
	nl.key.ends = max(nl.key.ends, nl.millis()+ms)
}

func (nl *naiveLock) marks() {
	if !nl.key.isMarked {
		nl.key.isMarked = true
		nl.key.ends += keeps.Milliseconds()
	}
}

func (nl *naiveLock) has(hold string) bool { return nl.index(hold) >= 0 }

func (nl *naiveLock) index(hold string) int {
	return slices.IndexFunc(nl.tickets, func(t ticket) bool { return t.hold == hold })
}

// remove ends a ticket, and reports whether there was one.
func (nl *naiveLock) remove(hold string) bool {
	i := nl.index(hold)
	if i >= 0 {
		nl.tickets = slices.Delete(nl.tickets, i, i+1)
	}
	return i >= 0
}

// add gives hold a ticket behind all others.
func (nl *naiveLock) add(hold string) {
	if nl.has(hold) {
		return
	}
	at := nl.now
	if n := len(nl.tickets); n > 0 {
		at = max(at, nl.tickets[n-1].at+1)
	}
	nl.tickets = append(nl.tickets, ticket{hold, at})
}

// forget drops the tickets that lost their positions, as far as the server has done so.
func (nl *naiveLock) forget() {
	real := nl.real()
	nl.tickets = slices.DeleteFunc(nl.tickets, func(t ticket) bool {
		return nl.isGone(t.hold[:22]) && !slices.Contains(real, any(t.hold+turnMode))
	})
}

// next returns the ticket that is granted the lock: the first one whose session is alive, can be notified, and was heard of
// lately; or else the first that is alive and can be notified. The caller is there.
func (nl *naiveLock) next(caller string) (ticket, bool) {
	isListening := func(s string) bool { return nl.serves(s, caller) }
	lately := func(s string) bool { return s == caller || nl.sessions[s].until-nl.now >= life*3/5 }
	for _, is := range []func(s string) bool{
		func(s string) bool { return isListening(s) && lately(s) }, isListening,
	} {
		for _, t := range nl.tickets {
			if is(t.hold[:22]) {
				return t, true
			}
		}
	}
	return ticket{}, false
}

// handOff gives the lock to a ticket, and notifies its session unless that asked.
func (nl *naiveLock) handOff(caller string, floor int64) (chosen, number string) {
	if t, found := nl.next(caller); found {
		session := t.hold[:22]
		nl.remove(t.hold)
		l := nl.sessions[session]
		nl.takes(t.hold, floor, max((l.until-nl.now+999)/1000, 1000))
		nl.marks()
		if session != caller {
			nl.messages[session] = append(nl.messages[session], attempt(t.hold)+digits(nl.key.stamp)+l.number)
		}
		return t.hold, l.number
	}
	nl.forget()
	nl.key.isMarked = len(nl.tickets) > 0
	nl.frees(floor)
	return "", ""
}

// enter replies as the script does; a try has no number.
func (nl *naiveLock) enter(hold, number string) []any {
	k, queues, now := nl.bounded(), number != "", digits(nl.now)
	left, floor, isEmpty := nl.left(k), nl.floor(k), len(nl.tickets) == 0
	switch {
	case k.hold == "" && !k.isMarked:
		nl.takes(hold, floor, lease)
		return []any{int64(1), digits(nl.key.stamp), now}
	case k.hold == hold:
		nl.lengthens(lease)
		return []any{int64(1), digits(k.stamp), now}
	case left > 0 && !queues:
		return []any{int64(0), left, int64(0), now}
	case left == 0 && isEmpty:
		nl.takes(hold, floor, lease)
		return []any{int64(1), digits(nl.key.stamp), now}
	}
	if queues {
		if left > 0 {
			nl.marks()
		}
		nl.add(hold)
		nl.countHeartbeat(hold[:22], number)
	}
	if left > 0 {
		return []any{int64(0), left, int64(0), now}
	}
	chosen, _ := nl.handOff(hold[:22], floor)
	switch {
	case chosen == hold:
		nl.lengthens(lease)
		return []any{int64(1), digits(nl.key.stamp), now}
	case chosen == "":
		isMarked := nl.key.isMarked
		if nl.takes(hold, floor, lease); isMarked {
			nl.marks()
		}
		return []any{int64(1), digits(nl.key.stamp), now}
	case chosen[:22] == hold[:22]:
		return []any{int64(0), nl.left(nl.key), int64(1), now}
	}
	return []any{int64(0), nl.left(nl.key), int64(0), now}
}

// grantTo is what a reply says of the lock that an attempt of the session was granted, "" for another's.
func (nl *naiveLock) grantTo(session, chosen, number string) string {
	if chosen == "" || chosen[:22] != session {
		return ""
	}
	return attempt(chosen) + digits(nl.key.stamp) + number
}

func (nl *naiveLock) leave(hold string) []any {
	k, now, had := nl.seen(), digits(nl.now), nl.remove(hold)
	if k.hold != hold {
		k = nl.bounded()
	}
	switch {
	case k.hold == hold && !k.isMarked:
		nl.frees(k.stamp)
		return []any{int64(1), now, "", int64(0)}
	case k.hold == hold:
		chosen, number := nl.handOff(hold[:22], k.stamp)
		return []any{int64(1), now, nl.grantTo(hold[:22], chosen, number), int64(0)}
	case k.isMarked && nl.left(k) == 0:
		nl.handOff("", nl.floor(k))
	}
	if had {
		return []any{int64(2), now}
	}
	return []any{int64(0), now}
}

// leaveAlone is a leave with the holder key alone.
func (nl *naiveLock) leaveAlone(hold string) []any {
	k := nl.seen()
	if k.hold != hold {
		return []any{int64(-3), digits(nl.now)}
	}
	nl.frees(k.stamp)
	return []any{int64(3), digits(nl.now)}
}

func (nl *naiveLock) poll(session, number string, holds []string) []any {
	k, states := nl.bounded(), ""
	for _, hold := range holds {
		states += map[bool]string{true: "1", false: "0"}[nl.has(hold)]
	}
	isMine, paid, left := k.hold != "" && slices.Contains(holds, k.hold), strings.Repeat("-", 20), nl.left(k)
	holder := k.hold
	if !isMine && left == 0 {
		holder = ""
	}
	if isMine {
		nl.lengthens(life / 1000)
		left, paid = max(left, life), number
	}
	if strings.Contains(states, "1") {
		nl.countHeartbeat(session, number)
		if isMine || left > 0 {
			nl.marks()
		} else {
			holder, paid = nl.handOff(session, nl.floor(k))
			k, left = nl.key, nl.left(nl.key)
		}
	}
	grants := ""
	if holder != "" && holder[:22] == session {
		grants = attempt(holder) + digits(k.stamp) + paid
	}
	return []any{int64(1), left, int64(0), grants, states, digits(nl.now)}
}

// requeue ends old and queues fresh, which gets no ticket after notAfter.
func (nl *naiveLock) requeue(old, fresh, number string, notAfter int64) []any {
	k, now, had, late := nl.seen(), digits(nl.now), int64(0), nl.now > notAfter
	nl.remove(old)
	if k.hold != old {
		k = nl.bounded()
	}
	if k.hold == old {
		had, k.hold = 1, ""
		switch {
		case !k.isMarked && !late:
			nl.takes(fresh, k.stamp, lease)
			return []any{int64(1), digits(nl.key.stamp), now, int64(1), had}
		case !k.isMarked:
			nl.frees(k.stamp)
			return []any{int64(4), now, int64(1), had}
		}
	}
	if k.hold == fresh {
		nl.lengthens(lease)
		return []any{int64(1), digits(k.stamp), now, int64(1), had}
	}
	left, session := nl.left(k), fresh[:22]
	if k.isMarked && !late {
		nl.add(fresh)
	}
	if !nl.has(fresh) {
		if k.isMarked && left == 0 {
			nl.handOff("", nl.floor(k))
		}
		return []any{int64(4), now, int64(1), had}
	}
	if !nl.isAlive(session) || nl.sessions[session].until-nl.now < life*7/8 {
		nl.countHeartbeat(session, number)
	}
	switch {
	case left > 0:
		return []any{int64(0), left, int64(0), now, "", int64(1), had}
	case !k.isMarked:
		return []any{int64(0), int64(0), int64(1), now, "", int64(1), had}
	}
	chosen, paid := nl.handOff(session, nl.floor(k))
	if chosen == fresh {
		nl.lengthens(lease)
		return []any{int64(1), digits(nl.key.stamp), now, int64(1), had}
	}
	return []any{int64(0), nl.left(nl.key), int64(0), now, nl.grantTo(session, chosen, paid), int64(1), had}
}

func (nl *naiveLock) force(hold string) int64 {
	k := nl.seen()
	switch {
	case k.hold != hold:
		return 0
	case k.isMarked:
		nl.remove(hold)
		nl.handOff("", k.stamp+tokens)
	default:
		nl.frees(k.stamp + tokens)
	}
	return 1
}

// renew gives the hold ttl from now, in milliseconds; 0 asks only.
func (nl *naiveLock) renew(hold string, ttl int64) int64 {
	k := nl.seen()
	if k.hold != hold || ttl == 0 && nl.left(k) == 0 {
		return 0
	}
	if ttl > 0 {
		nl.lengthens(ttl)
	}
	return 1
}
