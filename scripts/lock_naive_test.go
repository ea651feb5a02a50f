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

func (m *naiveLock) millis() int64 { return m.now / 1000 }

// seen is the holder key as it is now: a key that has ended is missing.
func (m *naiveLock) seen() naiveKey {
	if m.key.ends <= m.millis() {
		return naiveKey{}
	}
	return m.key
}

// left returns how long the hold of a key lasts, in microseconds.
func (m *naiveLock) left(k naiveKey) int64 {
	switch {
	case k.hold == "":
		return 0
	case k.isMarked:
		return max(k.ends-m.millis()-keeps.Milliseconds(), 0) * 1000
	}
	return (k.ends - m.millis()) * 1000
}

// floor is that of the next hold: behind the whole block of a hold that ended by itself.
func (m *naiveLock) floor(k naiveKey) int64 {
	if k.hold != "" && m.left(k) == 0 {
		return k.stamp + tokens
	}
	return k.stamp
}

// takes gives hold the lock, on a key without a mark.
func (m *naiveLock) takes(hold string, floor, ms int64) {
	m.key = naiveKey{hold: hold, stamp: max(m.now, floor+1), ends: m.millis() + ms}
}

// frees leaves the lock free. The mark stays if there is one.
func (m *naiveLock) frees(floor int64) {
	if m.key.isMarked {
		m.key = naiveKey{stamp: floor, ends: m.millis() + markLife.Milliseconds(), isMarked: true}
		return
	}
	m.key = naiveKey{stamp: floor, ends: m.millis() + floorLife.Milliseconds()}
}

// lengthens gives the hold ms from now, if that is longer.
func (m *naiveLock) lengthens(ms int64) {
	if m.key.isMarked {
		ms += keeps.Milliseconds()
	}
	m.key.ends = max(m.key.ends, m.millis()+ms)
}

func (m *naiveLock) marks() {
	if !m.key.isMarked {
		m.key.isMarked = true
		m.key.ends += keeps.Milliseconds()
	}
}

func (m *naiveLock) has(hold string) bool { return m.index(hold) >= 0 }

func (m *naiveLock) index(hold string) int {
	return slices.IndexFunc(m.tickets, func(t ticket) bool { return t.hold == hold })
}

// remove ends a ticket, and reports whether there was one.
func (m *naiveLock) remove(hold string) bool {
	i := m.index(hold)
	if i >= 0 {
		m.tickets = slices.Delete(m.tickets, i, i+1)
	}
	return i >= 0
}

// add gives hold a ticket behind all others.
func (m *naiveLock) add(hold string) {
	if m.has(hold) {
		return
	}
	at := m.now
	if n := len(m.tickets); n > 0 {
		at = max(at, m.tickets[n-1].at+1)
	}
	m.tickets = append(m.tickets, ticket{hold, at})
}

// forget drops the tickets that lost their positions, as far as the server has done so.
func (m *naiveLock) forget() {
	real := m.real()
	m.tickets = slices.DeleteFunc(m.tickets, func(t ticket) bool {
		return m.isGone(t.hold[:22]) && !slices.Contains(real, any(t.hold+turnMode))
	})
}

// next returns the ticket that is granted the lock: the first one whose session is alive, can be notified, and was heard of
// lately; or else the first that is alive and can be notified. The session that asks is there.
func (m *naiveLock) next(asks string) (ticket, bool) {
	isListening := func(s string) bool { return m.serves(s, asks) }
	lately := func(s string) bool { return s == asks || m.sessions[s].until-m.now >= life*3/5 }
	for _, is := range []func(s string) bool{
		func(s string) bool { return isListening(s) && lately(s) }, isListening,
	} {
		for _, t := range m.tickets {
			if is(t.hold[:22]) {
				return t, true
			}
		}
	}
	return ticket{}, false
}

// handOff gives the lock to a ticket, and notifies its session unless that asked.
func (m *naiveLock) handOff(asks string, floor int64) (chosen, number string) {
	if t, found := m.next(asks); found {
		session := t.hold[:22]
		m.remove(t.hold)
		l := m.sessions[session]
		m.takes(t.hold, floor, max((l.until-m.now+999)/1000, 1000))
		m.marks()
		if session != asks {
			m.notified[session] = append(m.notified[session], attempt(t.hold)+digits(m.key.stamp)+l.number)
		}
		return t.hold, l.number
	}
	m.forget()
	m.key.isMarked = len(m.tickets) > 0
	m.frees(floor)
	return "", ""
}

// enter replies as the script does; a try has no number.
func (m *naiveLock) enter(hold, number string) []any {
	k, queues, now := m.seen(), number != "", digits(m.now)
	left, floor, isEmpty := m.left(k), m.floor(k), len(m.tickets) == 0
	switch {
	case k.hold == "" && !k.isMarked:
		m.takes(hold, floor, lease)
		return []any{int64(1), digits(m.key.stamp), now}
	case k.hold == hold:
		m.lengthens(lease)
		return []any{int64(1), digits(k.stamp), now}
	case left > 0 && !queues:
		return []any{int64(0), left, int64(0), now}
	case left == 0 && isEmpty:
		m.takes(hold, floor, lease)
		return []any{int64(1), digits(m.key.stamp), now}
	}
	if queues {
		if left > 0 {
			m.marks()
		}
		m.add(hold)
		m.countHeartbeat(hold[:22], number)
	}
	if left > 0 {
		return []any{int64(0), left, int64(0), now}
	}
	chosen, _ := m.handOff(hold[:22], floor)
	switch {
	case chosen == hold:
		m.lengthens(lease)
		return []any{int64(1), digits(m.key.stamp), now}
	case chosen == "":
		isMarked := m.key.isMarked
		if m.takes(hold, floor, lease); isMarked {
			m.marks()
		}
		return []any{int64(1), digits(m.key.stamp), now}
	case chosen[:22] == hold[:22]:
		return []any{int64(0), m.left(m.key), int64(1), now}
	}
	return []any{int64(0), m.left(m.key), int64(0), now}
}

// grantTo is what a reply says of the lock that an attempt of the session was granted, "" for another's.
func (m *naiveLock) grantTo(session, chosen, number string) string {
	if chosen == "" || chosen[:22] != session {
		return ""
	}
	return attempt(chosen) + digits(m.key.stamp) + number
}

func (m *naiveLock) leave(hold string) []any {
	k, now, had := m.seen(), digits(m.now), m.remove(hold)
	switch {
	case k.hold == hold && !k.isMarked:
		m.frees(k.stamp)
		return []any{int64(1), now, "", int64(0)}
	case k.hold == hold:
		chosen, number := m.handOff(hold[:22], k.stamp)
		return []any{int64(1), now, m.grantTo(hold[:22], chosen, number), int64(0)}
	case k.isMarked && m.left(k) == 0:
		m.handOff("", m.floor(k))
	}
	if had {
		return []any{int64(2), now}
	}
	return []any{int64(0), now}
}

// leaveAlone is a leave with the holder key alone.
func (m *naiveLock) leaveAlone(hold string) []any {
	k := m.seen()
	if k.hold != hold {
		return []any{int64(-3), digits(m.now)}
	}
	m.frees(k.stamp)
	return []any{int64(3), digits(m.now)}
}

func (m *naiveLock) poll(session, number string, holds []string) []any {
	k, places := m.seen(), ""
	for _, hold := range holds {
		places += map[bool]string{true: "1", false: "0"}[m.has(hold)]
	}
	isMine, paid, left := k.hold != "" && slices.Contains(holds, k.hold), strings.Repeat("-", 20), m.left(k)
	holder := k.hold
	if !isMine && left == 0 {
		holder = ""
	}
	if isMine {
		m.lengthens(life / 1000)
		left, paid = max(left, life), number
	}
	if strings.Contains(places, "1") {
		m.countHeartbeat(session, number)
		if isMine || left > 0 {
			m.marks()
		} else {
			holder, paid = m.handOff(session, m.floor(k))
			k, left = m.key, m.left(m.key)
		}
	}
	grants := ""
	if holder != "" && holder[:22] == session {
		grants = attempt(holder) + digits(k.stamp) + paid
	}
	return []any{int64(1), left, int64(0), grants, places, digits(m.now)}
}

// requeue ends old and queues fresh, which gets no ticket after notAfter.
func (m *naiveLock) requeue(old, fresh, number string, notAfter int64) []any {
	k, now, had, late := m.seen(), digits(m.now), int64(0), m.now > notAfter
	m.remove(old)
	if k.hold == old {
		had, k.hold = 1, ""
		switch {
		case !k.isMarked && !late:
			m.takes(fresh, k.stamp, lease)
			return []any{int64(1), digits(m.key.stamp), now, int64(1), had}
		case !k.isMarked:
			m.frees(k.stamp)
			return []any{int64(4), now, int64(1), had}
		}
	}
	if k.hold == fresh {
		m.lengthens(lease)
		return []any{int64(1), digits(k.stamp), now, int64(1), had}
	}
	left, session := m.left(k), fresh[:22]
	if k.isMarked && !late {
		m.add(fresh)
	}
	if !m.has(fresh) {
		if k.isMarked && left == 0 {
			m.handOff("", m.floor(k))
		}
		return []any{int64(4), now, int64(1), had}
	}
	if !m.isAlive(session) || m.sessions[session].until-m.now < life*7/8 {
		m.countHeartbeat(session, number)
	}
	switch {
	case left > 0:
		return []any{int64(0), left, int64(0), now, "", int64(1), had}
	case !k.isMarked:
		return []any{int64(0), int64(0), int64(1), now, "", int64(1), had}
	}
	chosen, paid := m.handOff(session, m.floor(k))
	if chosen == fresh {
		m.lengthens(lease)
		return []any{int64(1), digits(m.key.stamp), now, int64(1), had}
	}
	return []any{int64(0), m.left(m.key), int64(0), now, m.grantTo(session, chosen, paid), int64(1), had}
}

func (m *naiveLock) force(hold string) int64 {
	k := m.seen()
	switch {
	case k.hold != hold:
		return 0
	case k.isMarked:
		m.remove(hold)
		m.handOff("", k.stamp+tokens)
	default:
		m.frees(k.stamp + tokens)
	}
	return 1
}

// renew gives the hold ttl from now, in milliseconds; 0 asks only.
func (m *naiveLock) renew(hold string, ttl int64) int64 {
	k := m.seen()
	if k.hold != hold || ttl == 0 && m.left(k) == 0 {
		return 0
	}
	if ttl > 0 {
		m.lengthens(ttl)
	}
	return 1
}
