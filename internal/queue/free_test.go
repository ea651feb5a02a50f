// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// releases lists the releases of a session that pass the proxy, by script. The session may try the short release.
func (f *fixture) releases(u *user) func() []string {
	u.purse.pay(missCost)
	f.match(proto.LockFreeScript, proto.LockLeaveScript)
	var sent []string
	names := map[string]string{proto.LockFreeScript.SHA1: "free", proto.LockLeaveScript.SHA1: "leave"}
	requests := make(chan string, 100)
	f.proxy.OnRequest(func(_ int, request []string) { requests <- names[request[1]] })
	return func() []string {
		for {
			select {
			case name := <-requests:
				sent = append(sent, name)
			default:
				return sent
			}
		}
	}
}

// releaseAt releases the lock, whose last token was that of the stamp, and returns whether it was held.
func (u *user) releaseAt(a *Attempt, lastUsed wire.Stamp) bool {
	u.fixture.Helper()
	wasHeld, err := a.Release(u.fixture.T.Context(), lastUsed, lease)
	require.NoError(u.fixture, err)
	return wasHeld
}

// P3, P7: a lock that was free, and that no other session wants, is released by one short call. It leaves the floor.
func TestRelease_NoQueue_IsShort(t *testing.T) {
	t.Parallel()
	for _, used := range []wire.Stamp{0, 1, 100} {
		f := newFixture(t)
		u := f.proxied()
		sent := f.releases(u)
		a := u.acquire()
		require.True(t, u.releaseAt(a, a.Grant().Stamp+used))
		require.Equal(t, []string{"free"}, sent())
		floor := a.Grant().Stamp + used
		require.Equal(t, "sb1-"+floor.Text(), f.server.MustDo(t, "GET", u.q.keys.Holder))
		_, attempts, _ := u.Len()
		require.Zero(t, attempts)
	}
}

// P1, P7: the only attempt of a session asks for the holder key alone, under the same purse. If that decides nothing the whole call
// follows, and the purse is empty.
func TestEnter_OnlyAttempt_IsShort(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u, other := f.proxied(), f.direct()
	u.purse.pay(missCost)
	f.match(proto.LockEnterScript)
	keys := make(chan string, 100)
	f.proxy.OnRequest(func(_ int, request []string) { keys <- request[2] })
	a := u.acquire()
	require.Equal(t, "1", <-keys)
	require.True(t, u.releaseAt(a, a.Grant().Stamp))

	held := other.acquire()
	waiting := u.startWaiting(t.Context(), 1)
	require.Equal(t, "1", redistest.Receive(t, "the short call", keys))
	require.Equal(t, "3", redistest.Receive(t, "the whole call", keys))
	other.release(held)
	a = within(t, "the lock", waiting).mustHave(t)
	require.EqualValues(t, 1, a.footprint.Sent)
	u.release(a)

	u.release(u.acquire())
	require.Equal(t, "3", redistest.Receive(t, "a whole call", keys))
	f.awaitNothingLeft(u, other)
}

// P6: a waiter that came since the grant has marked the key. The short release finds the mark, and the leave that follows
// hands the lock over.
func TestRelease_WaiterCame_IsFollowedByTheLeave(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u, other := f.proxied(), f.direct()
	sent := f.releases(u)
	a := u.acquire()
	waiting := other.startWaiting(t.Context(), 1)
	require.True(t, u.releaseAt(a, a.Grant().Stamp))
	require.Equal(t, []string{"free", "leave"}, sent())
	other.release(within(t, "the lock", waiting).mustHave(t))

	a = u.acquire() // the purse is empty: the release that follows a miss is the leave
	require.True(t, u.releaseAt(a, a.Grant().Stamp))
	require.Equal(t, []string{"free", "leave", "leave"}, sent())
	f.awaitNothingLeft(u, other)
}

// P4: a holder that may have a ticket, or that waited, or beside which its session waits, releases by the leave alone.
func TestRelease_TicketPossible_IsNoShortOne(t *testing.T) {
	t.Parallel()
	for name, acquire := range map[string]func(f *fixture, u *user) (a *Attempt, end func()){
		"SentTwice": func(f *fixture, u *user) (*Attempt, func()) {
			a := u.acquire()
			a.footprint.Sent++
			return a, func() {}
		},
		"Waited": func(f *fixture, u *user) (*Attempt, func()) {
			other := f.direct()
			held := other.acquire()
			waiting := u.startWaiting(f.T.Context(), 1)
			other.release(held)
			return within(f, "the lock", waiting).mustHave(f), func() {}
		},
		"SessionWaits": func(f *fixture, u *user) (*Attempt, func()) {
			a := u.acquire()
			waiting := u.startWaiting(f.T.Context(), 1)
			return a, func() { u.release(within(f, "the lock", waiting).mustHave(f)) }
		},
		"TokenNotKnown": func(f *fixture, u *user) (*Attempt, func()) {
			a := u.acquire()
			a.grant.Stamp = 0
			return a, func() {}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			u := f.proxied()
			a, end := acquire(f, u)
			sent := f.releases(u)
			u.releaseAt(a, a.grant.Stamp)
			require.Equal(t, []string{"leave"}, sent()[:1])
			end()
			f.awaitNothingLeft(u)
		})
	}
}

// P7: of any releases, one at a time, at most a sixteenth are misses. Locks that no other session wants get the short release
// from the 33rd on.
func TestPurse_MissesAreFew(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		random, p := rand.New(rand.NewPCG(seed, 1)), new(purse)
		share, misses := random.Float64(), 0
		for n := 1; n < 2000; n++ {
			isMiss := random.Float64() < share
			switch {
			case !p.allows() && !isMiss:
				p.pay(1)
			case !p.allows():
			case isMiss:
				misses++
				p.pay(-missCost)
			default:
				p.pay(2)
			}
			require.LessOrEqual(t, misses, n/16, "seed %d", seed)
		}
	}
	p := new(purse)
	for range missCost {
		require.False(t, p.allows())
		p.pay(1)
	}
	for range 100 {
		require.True(t, p.allows())
		p.pay(2)
	}
}

// P7: a session tries the short release once its leaves have shown that its locks have no queues. A release that hands the lock
// over shows nothing.
func TestRelease_LeavesFoundNoQueue_TheNextIsShort(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u, other := f.proxied(), f.direct()
	sent := f.releases(u)
	u.purse.pay(-missCost)
	for n := range missCost + 2 {
		a := u.acquire()
		if n == 1 {
			waiting := other.startWaiting(t.Context(), 1)
			require.True(t, u.releaseAt(a, a.Grant().Stamp))
			turn := within(t, "the lock", waiting).mustHave(t)
			// The stamp says that one token was used. Otherwise a stamp within 255 µs is not the server's time, and its hold pays nothing.
			require.True(t, other.releaseAt(turn, turn.Grant().Stamp))
			continue
		}
		require.True(t, u.releaseAt(a, a.Grant().Stamp))
	}
	all := sent()
	require.Equal(t, slices.Repeat([]string{"leave"}, missCost+1), all[:missCost+1])
	require.Equal(t, "free", all[missCost+1])
}

// P7: misses that are under way at once are paid in again before the next try.
func TestPurse_MissesAtOnceAreRepaid(t *testing.T) {
	t.Parallel()
	p := new(purse)
	for range 10 {
		p.pay(-missCost)
	}
	for range 11 * missCost {
		require.False(t, p.allows())
		p.pay(1)
	}
	require.True(t, p.allows())
}
