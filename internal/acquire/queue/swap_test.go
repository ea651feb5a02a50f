// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/layout"
	"github.com/signalbox-go/signalbox/internal/names"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

var permitsKind = Protocol{QueueScripts: &layout.QueueScripts{
	Enter: scripts.SemaphoreEnter, Poll: scripts.SemaphorePoll, Leave: scripts.SemaphoreLeave, Drop: scripts.HoldsDrop, Labelled: true,
}}

// permitsKeys returns the keys of the semaphore of the tests, which has three permits.
func permitsKeys(tb testing.TB) *names.Set {
	tb.Helper()
	n, err := names.Native(names.NamingOptions{Prefix: names.DefaultPrefix}, "a")
	require.NoError(tb, err)
	n = n.ForSemaphore()
	return &n
}

// permits returns a request for n permits.
func permits(n int) *Request {
	return &Request{Life: lease, FloorTTL: "60000", Mode: fmt.Sprintf("%010d", n), Args: []string{"3", "0"}, Concurrent: true}
}

// joinPermits returns a session that uses the semaphore.
func (f *fixture) joinPermits(at dialer, client ...func(*rueidis.ClientOption)) *user {
	f.Helper()
	return f.joinAs(at, permitsKind, permitsKeys(f), nil, client...)
}

// acquirePermits acquires n permits, which are free.
func (u *user) acquirePermits(n int) *Attempt {
	u.fixture.Helper()
	a, err := u.q.try(u.fixture.T.Context(), permits(n))
	require.NoError(u.fixture, err)
	return a
}

// swapForOne keeps one permit of those that a has.
func (u *user) swapForOne(ctx context.Context, a *Attempt) (*Attempt, error) {
	h, err := a.Swap(ctx, scripts.SemaphoreSplit, permits(1))
	return attemptOf(h), err
}

// matchSwaps lets the proxy count swaps, from here on.
func (f *fixture) matchSwaps() {
	f.match(scripts.SemaphoreSplit)
	f.proxy.ResetCount()
}

// permitHolds returns the holds of the semaphore, by the server's account.
func (f *fixture) permitHolds() (holds []string) {
	f.Helper()
	list, _ := f.server.MustDo(f, "ZRANGE", permitsKeys(f).Holder, 0, -1).([]any)
	for _, member := range list {
		if name := fmt.Sprint(member); len(name) > 41 {
			holds = append(holds, name)
		}
	}
	return holds
}

// awaitNoPermits waits until neither the sessions nor the server know of any hold.
func (f *fixture) awaitNoPermits(users ...*user) {
	f.Helper()
	await(f, "the end of everything", func() bool {
		for _, u := range users {
			if _, attempts, _ := u.Len(); attempts > 0 || u.session.Undoer.Pending() > 0 {
				return false
			}
		}
		return len(f.permitHolds()) == 0
	})
}

// P3: the hold that replaces another has a life and a later token of its own, and no session sees a moment
// without a hold.
func TestSwapReplacesTheHold(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u := f.joinPermits(f.server)
	a := u.acquirePermits(3)
	b, err := u.swapForOne(t.Context(), a)
	require.NoError(t, err)
	require.Equal(t, []string{b.Name()}, f.permitHolds())
	require.Greater(t, b.Grant().Stamp, a.Grant().Stamp)
	require.Equal(t, lease, b.Grant().Life)
	_, attempts, _ := u.Len()
	require.Equal(t, 1, attempts, "the old one is forgotten")
	wasHeld, err := a.Release(t.Context(), 0, lease)
	require.NoError(t, err)
	require.False(t, wasHeld)
	u.release(b)
	f.awaitNoPermits(u)
}

// The permits that a swap frees are granted to waiters: of its own session by the reply, of others by
// message.
func TestPermitsFreedBySwapAreGranted(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u, other := f.joinPermits(f.server), f.joinPermits(f.server)
	a := u.acquirePermits(3)
	var waiting []<-chan outcome
	for i, who := range []*user{u, other} {
		returned := make(chan outcome, 1)
		go func() {
			a, err := who.q.Take(t.Context(), permits(1))
			returned <- outcome{a, err}
		}()
		await(t, "a ticket in the queue", func() bool {
			return f.server.MustDo(t, "ZCARD", permitsKeys(t).AppendKeys(nil)[1]) == int64(i+1)
		})
		waiting = append(waiting, returned)
	}
	b, err := u.swapForOne(t.Context(), a)
	require.NoError(t, err)
	require.Len(t, f.permitHolds(), 3)
	u.release(within(t, "a permit", waiting[0]).mustHave(t))
	other.release(within(t, "a permit", waiting[1]).mustHave(t))
	u.release(b)
	f.awaitNoPermits(u, other)
}

// A swap that the server executes after its not-after has a reply that says so, and is sent with a later one.
func TestSwap_Late_IsSentAgain(t *testing.T) {
	redistest.Slow(t, "a request of unknown outcome stays open for three seconds")
	t.Parallel()
	f := newFixture(t)
	u := f.joinPermits(f.proxy, func(o *rueidis.ClientOption) { o.ConnWriteTimeout = time.Minute })
	a := u.acquirePermits(3)
	f.matchSwaps()
	f.proxy.Arm(redistest.Fault{Kind: redistest.DelayRequest, Delay: session.MaxPatience + time.Second})
	began := wire.Stamp(time.Now().UnixMicro())
	b, err := u.swapForOne(t.Context(), a)
	require.NoError(t, err)
	require.Equal(t, 2, f.proxy.Requests())
	require.Greater(t, b.Grant().Stamp, began+wire.Stamp(session.MaxPatience.Microseconds()), "the first did nothing")
	u.release(b)
	f.awaitNoPermits(u)
}

// The same holds if the server refuses its turn in the queue.
func TestSwap_Refused_ReturnsTheReason(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u := f.joinPermits(f.server)
	a := u.acquirePermits(3)
	f.server.MustDo(t, "SET", permitsKeys(t).AppendKeys(nil)[2], "another's")
	f.server.MustDo(t, "ZADD", permitsKeys(t).AppendKeys(nil)[1], 1, strings.Repeat("-", 41)+"0000000001") // so that the heartbeats are read
	_, err := u.swapForOne(t.Context(), a)
	require.ErrorContains(t, err, "WRONGTYPE")
	require.Equal(t, []string{a.Name()}, f.permitHolds(), "nothing is half done")
	f.server.MustDo(t, "DEL", permitsKeys(t).AppendKeys(nil)[2], permitsKeys(t).AppendKeys(nil)[1])
	a.Abandon()
	f.awaitNoPermits(u)
}
