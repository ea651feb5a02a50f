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

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/names"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

var permitsKind = Config{
	Enter: scripts.SemaphoreEnter, Poll: scripts.SemaphorePoll, Leave: scripts.SemaphoreLeave, Drop: scripts.HoldsDrop, Labelled: true,
}

// permitsKeys returns the keys of the semaphore of the tests, which has three permits.
func permitsKeys(tb testing.TB) *LockKeys {
	tb.Helper()
	n, err := names.Make(names.DefaultPrefix, "a")
	require.NoError(tb, err)
	return &LockKeys{
		Holder: n.Permits(), All: []string{n.Permits(), n.PermitsQueue(), n.PermitsHeartbeats()},
		Channel: names.Grants(names.DefaultPrefix),
	}
}

// permits returns a wish for n of them.
func permits(n int) *Request {
	return &Request{Life: lease, FloorTTL: "60000", Mode: fmt.Sprintf("%010d", n), Args: []string{"3", "0"}, Concurrent: true}
}

// sharer returns a session that uses the semaphore.
func (p *place) sharer(at dialer, client ...func(*rueidis.ClientOption)) *user {
	p.Helper()
	return p.joinAs(at, permitsKind, permitsKeys(p), nil, client...)
}

// has acquires n permits, which are free.
func (u *user) has(n int) *Attempt {
	u.place.Helper()
	a, err := u.q.Try(u.place.T.Context(), permits(n))
	require.NoError(u.place, err)
	return a
}

// swap keeps one permit of those that a has.
func (u *user) swap(ctx context.Context, a *Attempt) (*Attempt, error) {
	return a.Swap(ctx, scripts.SemaphoreSplit, permits(1))
}

// onlySwaps lets the proxy count swaps, from here on.
func (p *place) onlySwaps() {
	p.only(scripts.SemaphoreSplit)
	p.proxy.ResetCount()
}

// sharing returns the holds of the semaphore, by the server's account.
func (p *place) sharing() (holds []string) {
	p.Helper()
	list, _ := p.server.MustDo(p, "ZRANGE", permitsKeys(p).Holder, 0, -1).([]any)
	for _, member := range list {
		if name := fmt.Sprint(member); len(name) > 41 {
			holds = append(holds, name)
		}
	}
	return holds
}

// notShared waits until neither the sessions nor the server know of any hold.
func (p *place) notShared(users ...*user) {
	p.Helper()
	await(p, "the end of everything", func() bool {
		for _, u := range users {
			if _, attempts, _ := u.Len(); attempts > 0 || u.session.Undoer.Pending() > 0 {
				return false
			}
		}
		return len(p.sharing()) == 0
	})
}

// P3: the hold that replaces another has a life and a later token of its own, and no session sees a moment
// without a hold.
func TestSwapReplacesTheHold(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	u := p.sharer(p.server)
	a := u.has(3)
	b, err := u.swap(t.Context(), a)
	require.NoError(t, err)
	require.Equal(t, []string{b.Name()}, p.sharing())
	require.Greater(t, b.Grant().Stamp, a.Grant().Stamp)
	require.Equal(t, lease, b.Grant().Life)
	_, attempts, _ := u.Len()
	require.Equal(t, 1, attempts, "the old one is forgotten")
	had, err := a.Release(t.Context(), 0, lease)
	require.NoError(t, err)
	require.False(t, had)
	u.gives(b)
	p.notShared(u)
}

// The permits that a swap frees are granted to waiters: of its own session by the reply, of others by
// message.
func TestPermitsFreedBySwapAreGranted(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	u, other := p.sharer(p.server), p.sharer(p.server)
	a := u.has(3)
	var waiting []<-chan outcome
	for i, who := range []*user{u, other} {
		returned := make(chan outcome, 1)
		go func() {
			a, err := who.q.Take(t.Context(), permits(1))
			returned <- outcome{a, err}
		}()
		await(t, "a ticket in the queue", func() bool {
			return p.server.MustDo(t, "ZCARD", permitsKeys(t).All[1]) == int64(i+1)
		})
		waiting = append(waiting, returned)
	}
	b, err := u.swap(t.Context(), a)
	require.NoError(t, err)
	require.Len(t, p.sharing(), 3)
	u.gives(within(t, "a permit", waiting[0]).mustHave(t))
	other.gives(within(t, "a permit", waiting[1]).mustHave(t))
	u.gives(b)
	p.notShared(u, other)
}

// P5: a swap whose request or reply is lost is repeated, and counts once.
func TestSwap_NoReply_IsRepeated(t *testing.T) {
	redistest.Slow(t, "a request of unknown outcome stays open for three seconds")
	t.Parallel()
	for _, kind := range []redistest.FaultKind{redistest.CutBeforeRequest, redistest.CutAfterRequest, redistest.SwallowReply} {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			u := p.sharer(p.proxy)
			a := u.has(3)
			p.onlySwaps()
			struck := p.proxy.Arm(redistest.Fault{Kind: kind})
			b, err := u.swap(t.Context(), a)
			require.NoError(t, err)
			require.True(t, struck.HasFired())
			require.Equal(t, []string{b.Name()}, p.sharing())
			u.gives(b)
			p.notShared(u)
		})
	}
}

// P4: a copy that comes after its not-after, when what it was for is over, does nothing.
func TestSwap_LateCopy_DoesNothing(t *testing.T) {
	redistest.Slow(t, "a request of unknown outcome stays open for three seconds")
	t.Parallel()
	p := newPlace(t)
	u := p.sharer(p.proxy)
	a := u.has(3)
	p.onlySwaps()
	p.proxy.Arm(redistest.Fault{Kind: redistest.DelayRequest, Delay: session.MaxPatience + time.Second})
	b, err := u.swap(t.Context(), a) // repeated when the wire was given up
	require.NoError(t, err)
	u.gives(b)
	await(t, "the copy", func() bool { return p.proxy.Replies() >= p.proxy.Requests() })
	p.notShared(u)
}

// A swap that the server executes after its not-after has a reply that says so, and is sent with a later one.
func TestSwap_Late_IsSentAgain(t *testing.T) {
	redistest.Slow(t, "a request of unknown outcome stays open for three seconds")
	t.Parallel()
	p := newPlace(t)
	u := p.sharer(p.proxy, func(o *rueidis.ClientOption) { o.ConnWriteTimeout = time.Minute })
	a := u.has(3)
	p.onlySwaps()
	p.proxy.Arm(redistest.Fault{Kind: redistest.DelayRequest, Delay: session.MaxPatience + time.Second})
	began := wire.Stamp(time.Now().UnixMicro())
	b, err := u.swap(t.Context(), a)
	require.NoError(t, err)
	require.Equal(t, 2, p.proxy.Requests())
	require.Greater(t, b.Grant().Stamp, began+wire.Stamp(session.MaxPatience.Microseconds()), "the first did nothing")
	u.gives(b)
	p.notShared(u)
}

// P2: nothing is put in the place of a hold that is gone.
func TestSwap_HoldGone_IsALoss(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	u := p.sharer(p.server)
	a := u.has(3)
	p.server.MustDo(t, "DEL", permitsKeys(t).Holder)
	_, err := u.swap(t.Context(), a)
	require.ErrorIs(t, err, errs.ErrLost)
	require.Empty(t, p.sharing())
	a.Abandon() // as a caller does that does not know
	p.notShared(u)
}

// The same holds if the server refuses its turn in the queue.
func TestSwap_Refused_ReturnsTheReason(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	u := p.sharer(p.server)
	a := u.has(3)
	p.server.MustDo(t, "SET", permitsKeys(t).All[2], "somebody's")
	p.server.MustDo(t, "ZADD", permitsKeys(t).All[1], 1, strings.Repeat("-", 41)+"0000000001") // so that lives is asked
	_, err := u.swap(t.Context(), a)
	require.ErrorContains(t, err, "WRONGTYPE")
	require.Equal(t, []string{a.Name()}, p.sharing(), "nothing is half done")
	p.server.MustDo(t, "DEL", permitsKeys(t).All[2], permitsKeys(t).All[1])
	a.Abandon()
	p.notShared(u)
}

// P4: if ctx ends before the outcome of a swap is known, no hold is left: whether it was executed, will be,
// or never is.
func TestSwap_GivenUp_LeavesNoHold(t *testing.T) {
	redistest.Slow(t, "a request of unknown outcome stays open for three seconds")
	t.Parallel()
	for _, fault := range []redistest.Fault{
		{Kind: redistest.SwallowRequest}, {Kind: redistest.SwallowReply}, {Kind: redistest.DelayRequest, Delay: delay},
	} {
		t.Run(fault.Kind.String(), func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			u := p.sharer(p.proxy)
			a := u.has(3)
			p.onlySwaps()
			struck := p.proxy.Arm(fault)
			ctx, cancel := context.WithCancel(t.Context())
			failed := make(chan error, 1)
			go func() {
				_, err := u.swap(ctx, a)
				failed <- err
			}()
			within(t, "the fault", struck.Fired())
			cancel()
			require.ErrorIs(t, within(t, "the end of the swap", failed), context.Canceled)
			a.Abandon()
			p.notShared(u)
			await(t, "what was delayed", func() bool { return fault.Kind != redistest.DelayRequest || p.proxy.Replies() > 0 })
			require.Empty(t, p.sharing())
		})
	}
}
