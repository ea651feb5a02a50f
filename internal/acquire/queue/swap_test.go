// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"fmt"
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
