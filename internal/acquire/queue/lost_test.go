// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/dispatch"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

// P6, states: waiting, and a poll finds what no message reported.
func TestPollFindsTheGrantOfALostMessage(t *testing.T) {
	redistest.Slow(t, "a waiter that no message reaches polls after a second")
	t.Parallel()
	p := newPlace(t)
	holder, u := p.plain(), p.behind()
	held := holder.takes()
	waiting := u.waiting(t.Context(), 1)
	u.hears()
	p.proxy.DropPushes(true)
	holder.gives(held)
	a := within(t, "the lock", waiting).mustHave(t)
	await(t, "the message that vanished", func() bool { return p.proxy.DroppedPushes() > 0 })
	require.Equal(t, pollsPerLife*dispatch.PollInterval, a.Grant().Life)
	u.gives(a)
	p.nothingLeft(holder, u)
}

// P6: messages before a subscription was confirmed are lost, so all waiters poll.
func TestSubscriptionIsFollowedByAPoll(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	holder, u := p.plain(), p.behind()
	held := holder.takes()
	waiting := u.waiting(t.Context(), 1)
	u.hears()
	p.onlyPolls()
	await(t, "a look long before the next one is due", func() bool { // each is asked for right after another
		u.polls()
		began := time.Now()
		u.polls()
		return time.Since(began) < dispatch.PollInterval/2
	})
	holder.gives(held)
	u.gives(within(t, "the lock", waiting).mustHave(t))
	p.nothingLeft(holder, u)
}

// P6: a failed poll is not the last.
func TestFailedPollIsRepeated(t *testing.T) {
	redistest.Slow(t, "a waiter that no message reaches polls after a second")
	t.Parallel()
	p := newPlace(t)
	holder, u := p.plain(), p.behind()
	held := holder.takes()
	waiting := u.waiting(t.Context(), 1)
	u.hears()
	p.proxy.DropPushes(true)
	p.onlyPolls()
	failed := p.proxy.Arm(redistest.Fault{Kind: redistest.CutBeforeRequest})
	within(t, "a look that fails", failed.Fired())
	holder.gives(held)
	u.gives(within(t, "the lock", waiting).mustHave(t))
	p.nothingLeft(holder, u)
}

// P6: the server loses the queue, and all waiters form a new one, however many they are.
func TestWaitersSurviveTheLossOfTheQueue(t *testing.T) {
	redistest.Slow(t, "a waiter that no message reaches polls after a second")
	t.Parallel()
	for name, lose := range map[string]func(p *place){
		"TheLine":    func(p *place) { p.server.MustDo(p, "DEL", keysOf(p, "a").All[1]) },
		"Everything": func(p *place) { p.server.MustDo(p, "FLUSHALL") },
		"Restart":    func(p *place) { p.server.Restart() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			holder, u := p.plain(), p.plain()
			held := holder.takes()
			var waiting []<-chan outcome
			const n = 64 // four times what a poll lists
			for i := range n {
				waiting = append(waiting, u.waiting(t.Context(), i+1))
			}
			before := p.tickets()
			lose(p)
			if name == "TheLine" {
				await(t, "all of them", func() bool { return len(p.tickets()) == n })
				for _, hold := range p.tickets() {
					require.NotContains(t, before, hold, "an id is used once")
				}
				holder.gives(held)
			}
			for range n {
				a := takeAny(t, waiting)
				u.gives(a)
			}
			if name != "TheLine" {
				_, _ = held.Release(t.Context(), 0, time.Second)
			}
			p.nothingLeft(holder, u)
		})
	}
}

// takeAny returns the first attempt that is granted the lock.
func takeAny(t *testing.T, waiting []<-chan outcome) (a *Attempt) {
	t.Helper()
	await(t, "the lock", func() bool {
		for _, w := range waiting {
			select {
			case got := <-w:
				a = got.mustHave(t)
				return true
			default:
			}
		}
		return false
	})
	return a
}

// P1, P5: two copies of one process, restored from a snapshot, have one session id. Neither may release what
// the other holds.
func TestUnknownHoldIsLeftAlone(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	u := p.behind()
	copied := u.session.NewHold()
	keys := u.q.keys
	p.server.MustDo(t, "SET", keys.Holder, "sb1l1780000000000000"+copied+"f-", "PX", 3_600_000)
	p.onlyPolls()
	p.proxy.ResetCount()
	waiting := u.waiting(t.Context(), 1)
	u.hears()
	u.polls()
	require.Equal(t, copied+"f", p.holder())
	u.Registry.applyGrants(told(copied[22:], strings.Repeat("-", numberSize)))
	require.Zero(t, u.session.Undoer.Pending())
	p.server.MustDo(t, "DEL", keys.Holder)
	u.polls()
	u.gives(within(t, "the lock, once that has ended", waiting).mustHave(t))
	p.nothingLeft(u)
}

// P2: nor are its heartbeats.
func TestGrantPaidByACopyIsAHint(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	u, other := p.plain(), p.plain()
	u.mu.Lock()
	other.mu.Lock()
	mine, copied := u.nextNumberLocked(), other.nextNumberLocked()
	u.mu.Unlock()
	other.mu.Unlock()
	require.Len(t, mine, numberSize)
	require.Equal(t, mine[:12], copied[:12])
	require.NotEqual(t, mine, copied)
}

// States: entering or waiting, and a message whose heartbeat is not known, or over: it polls at once.
func TestGrantPaidByUnknownHeartbeatIsPolledAtOnce(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	holder, u := p.plain(), p.behind()
	held := holder.takes()
	waiting := u.waiting(t.Context(), 1)
	u.hears()
	p.onlyPolls()
	attempt := p.tickets()[0][22:]
	hinted := func() {
		looks := p.proxy.Replies()
		u.Registry.applyGrants(told(attempt, "000000000001notknown"))
		await(t, "a poll", func() bool { return p.proxy.Replies() > looks })
		require.Empty(t, waiting)
	}
	await(t, "a look long before the next one is due", func() bool { // each is asked for right after another
		hinted()
		began := time.Now()
		hinted()
		return time.Since(began) < dispatch.PollInterval/2
	})

	u.mu.Lock()
	entered := u.mu.attempts[attempt]
	entered.state = entering // its reply is on its way: the poll has to list it all the same
	entered.applyGrantLocked(1, "000000000001notknown", clock.Now())
	require.True(t, entered.pollFirst)
	entered.state = queued
	tries := &Attempt{q: u.q}
	tries.applyGrantLocked(1, "000000000001notknown", clock.Now())
	require.False(t, tries.pollFirst, "one that came to try is in no line")
	u.mu.Unlock()
	holder.gives(held)
	u.gives(within(t, "the lock", waiting).mustHave(t))
	p.nothingLeft(holder, u)
}

// P2: the message that a lock was forced may overtake the grant of a waiter, and a session that begins to listen has
// missed no grant.
func TestAForcedLockMakesItsWaiterDoubtful(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	holder, u := p.plain(), p.plain()
	held := holder.takes()
	waiting := u.waiting(t.Context(), 1)
	a := u.waiter()
	u.mu.Lock()
	a.needsRecheck = false // the session may have begun to listen while it entered
	u.mu.Unlock()
	for _, c := range []struct {
		recheck  func()
		doubtful bool
	}{
		{u.RecheckAll, false},
		{func() { u.Recheck("another") }, false},
		{func() { u.Recheck(u.q.keys.Holder) }, true},
	} {
		c.recheck()
		u.mu.Lock()
		isQueued, doubtful := a.state == queued, a.needsRecheck
		u.mu.Unlock()
		require.True(t, isQueued)
		require.Equal(t, c.doubtful, doubtful)
	}
	holder.gives(held)
	u.gives(within(t, "the lock", waiting).mustHave(t))
	p.nothingLeft(holder, u)
}

// States: begun, and the release gets no reply. It is repeated.
func TestRelease_NoReply_IsRepeated(t *testing.T) {
	t.Parallel()
	for _, kind := range []redistest.FaultKind{redistest.SwallowRequest, redistest.SwallowReply, redistest.CutBeforeRequest, redistest.CutAfterRequest} {
		p := newPlace(t)
		u, other := p.behind(), p.plain()
		a := u.takes()
		waiting := other.waiting(t.Context(), 1)
		p.only(scripts.LockLeave)
		struck := p.proxy.Arm(redistest.Fault{Kind: kind})
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-struck.Fired(); cancel() }()
		_, err := a.Release(ctx, 0, lease)
		require.Error(t, err)
		p.proxy.CutAll()
		other.gives(within(t, "the lock", waiting).mustHave(t))
		p.nothingLeft(u, other)
	}
}

// P10: a hand-off that stopped in its middle, for lack of a right, leaves the ticket of the attempt that it granted the lock.
// The ticket lasts longer than the hold, and so does the repetition of a release that is denied too.
func TestDeniedReleaseIsRepeatedAfterItsHoldHasEnded(t *testing.T) {
	t.Parallel()
	for name, releases := range map[string]func(ctx context.Context, a *Attempt) error{
		"Release": func(ctx context.Context, a *Attempt) error {
			_, err := a.Release(ctx, 0, 0)
			return err
		},
		"Requeue": func(ctx context.Context, a *Attempt) error {
			_, _, err := a.Requeue(ctx, 0, 0)
			return err
		},
		"Scatter": func(ctx context.Context, a *Attempt) error {
			r := &LockRelease{Attempt: a}
			ReleaseMany(ctx, scripts.LockReleaseMany, []*LockRelease{r})
			return r.Err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			holder, u := p.plain(), p.plain()
			held := holder.takes()
			waiting := u.waiting(t.Context(), 1)
			holder.gives(held)
			a := within(t, "the lock", waiting).mustHave(t)
			p.server.MustDo(t, "ZADD", u.q.keys.All[1], "1", a.Name())
			p.server.MustDo(t, "ACL", "SETUSER", "default", "-zrem", "-zpopmin")
			u.Done(u.q) // a session that still uses the lock repeats the release anyway
			require.ErrorIs(t, releases(t.Context(), a), errs.ErrDenied)
			before := p.server.CommandStats()["evalsha"].Calls
			await(t, "a few repetitions", func() bool { return p.server.CommandStats()["evalsha"].Calls >= before+3 })
			p.server.MustDo(t, "HSET", u.q.keys.All[2], u.session.ID(), // silent for a second: no hand-off removes its ticket
				wire.Stamp(time.Now().Add(-time.Second).UnixMicro()).Text()+strings.Repeat("0", 20))
			p.server.MustDo(t, "ACL", "SETUSER", "default", "+zrem", "+zpopmin")
			p.nothingLeft(holder, u)
			u.q = u.Use(u.q.keys)
		})
	}
}

// P10: an attempt that was granted the lock at once has no ticket. Its repeated release asks for no right that only a ticket needs.
func TestDeniedReleaseAsksForNoFurtherRight(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	u := p.plain()
	a := u.takes()
	p.server.MustDo(t, "ACL", "SETUSER", "default", "-set", "-del", "-zrem")
	_, err := a.Release(t.Context(), 0, lease)
	require.ErrorIs(t, err, errs.ErrDenied)
	p.server.MustDo(t, "ACL", "SETUSER", "default", "+set")
	p.nothingLeft(u)
}

// P5: a poll that says that the session has the lock, during its release, must not cause a second release:
// the first one could find nothing to release.
func TestPollDuringReleaseEndsNoHold(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	u := p.behind()
	a := u.takes()
	waiting := u.waiting(t.Context(), 1)
	u.hears()
	p.only(scripts.LockLeave)
	p.proxy.ResetCount()
	arrives := make(chan struct{})
	p.proxy.OnRequest(func(int, []string) { <-arrives })
	released := make(chan bool, 1)
	go func() {
		had, err := a.Release(t.Context(), 0, lease)
		released <- had && err == nil
	}()
	await(t, "the release to begin", func() bool { return p.proxy.Requests() > 0 })
	u.mu.Lock()
	a.applyGrantLocked(a.grant.Stamp, "", a.grant.Read)
	u.mu.Unlock()
	require.Zero(t, u.session.Undoer.Pending())
	close(arrives)
	require.True(t, within(t, "the release", released))
	u.gives(within(t, "the lock", waiting).mustHave(t))
	p.nothingLeft(u)
}

// P6: Close ends all waits, whatever they are for.
func TestCloseEndsAllWaits(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(p *place){
		"InLine": func(*place) {},
		"Away":   func(p *place) { p.proxy.Refuse(); p.proxy.CutAll() },
		"Answering": func(p *place) {
			p.only(scripts.LockEnter)
			p.proxy.Arm(redistest.Fault{Kind: redistest.DelayReply, Delay: 150 * time.Millisecond})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			holder, u := p.plain(), p.behind()
			held := holder.takes()
			prepare(p)
			var waiting []<-chan outcome
			for range 5 {
				waiting = append(waiting, u.taking(t.Context()))
			}
			await(t, "five who wait", func() bool {
				u.mu.Lock()
				defer u.mu.Unlock()
				isSent := name == "Away"
				for _, a := range u.mu.attempts {
					isSent = isSent || a.notAfter != 0
				}
				return u.q.pending == 5 && isSent
			})
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			_ = u.session.Close(ctx)
			for _, w := range waiting {
				err := within(t, "the end of a wait", w).err
				require.True(t, errors.Is(err, errs.ErrClosed), err)
			}
			holder.gives(held)
		})
	}
}
