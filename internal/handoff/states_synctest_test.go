// SPDX-License-Identifier: Apache-2.0

package handoff

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// What is not scarce is not queued for: those who come while nobody waits ask the server beside each other.
func TestWhoComesWhileNobodyWaitsAsksTheServerItself(t *testing.T) {
	t.Parallel()
	inRoom(t, func(m *room) {
		one, two := m.takes(), m.takes()
		require.Len(t, m.places, 2)
		require.Equal(t, Unwanted, m.passes(9), "they do not wait yet")
		for i, g := range []*guest{one, two} {
			g.requireWaits()
			m.places[i].token = uint64(i + 1)
			m.places[i].entered <- nil
			synctest.Wait()
			g.requireHas(uint64(i + 1))
		}
	})
}

func TestWhoComesWhileSomebodyWaitsHasNoPlace(t *testing.T) {
	t.Parallel()
	inRoom(t, func(m *room) {
		guests := m.queued(3)
		requireAllWait(guests)
		for i, g := range guests {
			require.Equal(t, Passed, m.passes(uint64(i+1)))
			g.requireHas(uint64(i + 1))
			requireAllWait(guests[i+1:])
		}
		m.places[0].requireLeft(t, errServed)
		require.Equal(t, Unwanted, m.passes(9))
	})
}

// standing -> served: the place goes to the last who is idle.
func TestAPlaceGoesToTheLastWhoIsIdle(t *testing.T) {
	t.Parallel()
	inRoom(t, func(m *room) {
		guests := m.queued(4)
		require.Equal(t, Passed, m.passes(1))
		guests[0].requireHas(1)
		m.places[0].requireKept(t)
		guests[3].cancel() // it is its: who is idle keeps no place
		synctest.Wait()
		guests[3].requireFailed(context.Canceled)
		m.places[0].requireKept(t)
		guests[1].cancel()
		synctest.Wait()
		guests[1].requireFailed(errEnded)
		m.places[0].requireKept(t)
		require.Equal(t, Passed, m.passes(2))
		guests[2].requireHas(2)
		m.places[0].requireLeft(t, errServed)
	})
}

// standing -> served, where the next who seeks finds that the place was granted something.
func TestAPlaceThatWasGrantedSomethingIsLeftToTheNext(t *testing.T) {
	t.Parallel()
	inRoom(t, func(m *room) {
		guests := m.queued(2)
		m.places[0].token = 7
		m.places[0].entered <- nil // what it is asked next
		require.Equal(t, Passed, m.passes(1))
		guests[0].requireHas(1)
		guests[1].requireHas(7)
	})
}

// What the server grants goes to the first, whoever seeks: then it seeks on, in a place of its own.
func TestWhatIsGrantedGoesToTheFirst(t *testing.T) {
	t.Parallel()
	inRoom(t, func(m *room) {
		guests := m.queued(3)
		require.Equal(t, Passed, m.passes(1))
		m.places[0].requireKept(t) // by the last
		m.places[0].grant(2)
		guests[1].requireHas(2)
		guests[2].requireWaits()
		require.Len(t, m.places, 2)
		require.Equal(t, Unwanted, m.passes(9), "who is on its way to the server is passed over")
		m.answers(errWaits)
		m.places[1].requireKept(t)
		m.places[1].grant(3)
		guests[2].requireHas(3)
	})
}

// away -> served: one place after the other, and all that is free is gathered.
func TestOneAfterTheOtherGathersWhatIsFree(t *testing.T) {
	t.Parallel()
	inRoom(t, func(m *room) {
		guests := m.queued(4)
		m.places[0].grant(1)
		guests[0].requireHas(1)
		for n := 2; n <= 4; n++ {
			require.Len(t, m.places, n)
			m.places[n-1].token = uint64(n)
			m.answers(nil)
		}
		for i, g := range guests {
			g.requireHas(uint64(i + 1))
		}
	})
}

// In the beginning several may stand in line; what they have too many of ends as they are served.
func TestThoseWhoWereToldToWaitTogetherHavePlacesOfTheirOwn(t *testing.T) {
	t.Parallel()
	inRoom(t, func(m *room) {
		guests := []*guest{m.takes(), m.takes()}
		for _, p := range m.places {
			p.entered <- errWaits
			synctest.Wait()
		}
		guests = append(guests, m.takes())
		require.Len(t, m.places, 2)
		require.Equal(t, Passed, m.passes(1))
		guests[0].requireHas(1)
		m.places[0].requireLeft(t, errServed)
		m.places[1].grant(2)
		guests[1].requireHas(2)
		require.Len(t, m.places, 3, "one seeks at all times")
		m.answers(errWaits)
		require.Equal(t, Passed, m.passes(3))
		guests[2].requireHas(3)
		m.places[2].requireLeft(t, errServed)
	})
}

// standing -> gone: where nobody is idle the place is left, and what was granted in that instant is had.
func TestASeekerThatGivesUpLeavesItsPlace(t *testing.T) {
	t.Parallel()
	inRoom(t, func(m *room) {
		guests := m.queued(1)
		guests[0].cancel()
		synctest.Wait()
		guests[0].requireFailed(context.Canceled)
		m.places[0].requireLeft(t, context.Canceled)
		guests = append(guests, m.takes())
		m.answers(errWaits)
		m.places[1].token = 5
		guests[1].cancel()
		synctest.Wait()
		guests[1].requireHas(5)
	})
}

// away -> gone: a seeker that gives up on its way to the server leaves it to another.
func TestASeekerThatGivesUpOnItsWayLeavesItToAnother(t *testing.T) {
	t.Parallel()
	inRoom(t, func(m *room) {
		guests := m.queued(3)
		m.places[0].grant(1)
		guests[0].requireHas(1)
		guests[2].cancel() // it is on its way
		synctest.Wait()
		guests[2].requireFailed(context.Canceled)
		guests[1].requireWaits()
		require.Len(t, m.places, 2)
		m.answers(errWaits) // to the other, in the same place
		require.Equal(t, Passed, m.passes(2))
		guests[1].requireHas(2)
	})
}

// standing -> gone, away -> gone: what fails for one is not said of the others.
func TestAFailureIsTheSeekersAlone(t *testing.T) {
	t.Parallel()
	inRoom(t, func(m *room) {
		guests := m.queued(4)
		m.places[0].granted <- errFalls
		synctest.Wait()
		guests[0].requireFailed(errFalls)
		m.places[0].requireLeft(t, errFalls)
		require.Len(t, m.places, 2)
		m.answers(errFalls)
		guests[3].requireFailed(errFalls)
		m.answers(errWaits)
		requireAllWait(guests[1:3])
		require.Equal(t, Passed, m.passes(1))
		require.Equal(t, Passed, m.passes(2))
		guests[1].requireHas(1)
		guests[2].requireHas(2)
	})
}

// P6: a session that takes no more refuses places: all are told, one by the other.
func TestAllAreToldThatThereAreNoPlaces(t *testing.T) {
	t.Parallel()
	inRoom(t, func(m *room) {
		guests := m.queued(5)
		m.errs = []error{errFalls, errFalls, errFalls, errFalls}
		m.places[0].granted <- errFalls
		synctest.Wait()
		for _, g := range guests {
			g.requireFailed(errFalls)
		}
	})
}

// P6: who does nothing but wait for others is told at once when nobody is to wait, however long the seeker's call takes.
func TestAllWhoOnlyWaitAreSentAway(t *testing.T) {
	t.Parallel()
	inRoom(t, func(m *room) {
		guests := m.queued(3)
		m.places[0].grant(1)
		guests[0].requireHas(1)
		require.Equal(t, int32(1), m.places[1].entering.Load(), "the last seeks")
		guests = append(guests, m.takes())
		m.closed = errFalls
		m.table.Refuse(errFalls)
		synctest.Wait()
		guests[1].requireFailed(errFalls)
		guests[3].requireFailed(errFalls)
		guests[2].requireWaits()
		late := m.takes()
		late.requireFailed(errFalls)
		require.Len(t, m.places, 2, "it asks no more")
		m.answers(errWaits)
		m.table.Refuse(errFalls) // who stands in line hears of it there
		guests[2].requireWaits()
		m.places[1].granted <- errFalls
		synctest.Wait()
		guests[2].requireFailed(errFalls)
	})
}

// P7: wishes that nobody waits for any more leave nothing behind, however many sorts of them there were.
func TestThereAreAsManyQueuesAsSortsOfWishes(t *testing.T) {
	t.Parallel()
	inRoom(t, func(m *room) {
		guests := m.queued(2)
		for n := range 100 {
			sort := Request{Permits: int32(n + 2)}
			other := m.takesThe(sort)
			m.answers(errWaits)
			also := m.takesThe(sort)
			other.cancel()
			synctest.Wait()
			other.requireFailed(context.Canceled)
			require.Equal(t, Passed, m.Pass(now, sort, gives(7)))
			synctest.Wait()
			also.requireHas(7)
			m.places[n+1].requireLeft(t, errServed)
		}
		queues := 0
		for q := &m.mu.class; q != nil; q = q.more {
			queues++
		}
		require.Equal(t, 2, queues)
		requireAllWait(guests)
		require.Equal(t, Passed, m.passes(1))
		require.Equal(t, Passed, m.passes(2))
	})
}

// P4: who gives up in the instant in which it is given something has it.
func TestWhoGivesUpInTheSameInstantHasIt(t *testing.T) {
	t.Parallel()
	for range 50 {
		inRoom(t, func(m *room) {
			guests, passed, had := m.queued(3), 0, 0
			for _, g := range guests {
				go g.cancel()
				if m.Pass(now, like, gives(1)) == Passed {
					passed++
				}
				synctest.Wait()
			}
			for _, g := range guests {
				require.True(t, g.over.Load())
				if g.err == nil {
					had++
				}
			}
			require.Equal(t, passed, had)
		})
	}
}

// away: who was told to seek in the instant in which it gives up leaves no part behind that nobody has.
func TestWhoWasToldToSeekDoesNotLeaveUnheard(t *testing.T) {
	t.Parallel()
	table := newTable(t)
	q := table.Use("a")
	s := visit{queue: q, class: q.openLocked(like), waiter: table.waiter()}
	s.class.append(s.waiter)
	s.class.wanted()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, left := s.leave(ended)
	require.False(t, left)
	require.True(t, (<-s.waiter.news).seeks)
}

// A hold that refuses is not passed on, and nobody loses a place for that.
func TestAHoldThatRefusesIsNotPassedOn(t *testing.T) {
	t.Parallel()
	inRoom(t, func(m *room) {
		guests := m.queued(2)
		require.Equal(t, Refused, m.passes(0))
		requireAllWait(guests)
		require.Equal(t, Unwanted, m.Pass(now, Request{Permits: 2}, gives(1)))
		require.Equal(t, Passed, m.passes(1))
		require.Equal(t, Passed, m.passes(2))
		guests[0].requireHas(1)
		guests[1].requireHas(2)
	})
}
