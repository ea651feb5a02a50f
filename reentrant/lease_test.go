// SPDX-License-Identifier: Apache-2.0

package reentrant_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/redisson"
	"github.com/signalbox-go/signalbox/reentrant"
)

// nosyContext is a parent that is called when a child is removed from it, and checks one child then.
type nosyContext struct {
	context.Context

	onRemove func()
}

// Value hides what std would hang children onto directly.
func (*nosyContext) Value(any) any { return nil }

func (n *nosyContext) AfterFunc(f func()) (stop func() bool) {
	unhook := context.AfterFunc(n.Context, f)
	return func() bool {
		if n.onRemove != nil {
			n.onRemove()
		}
		return unhook()
	}
}

// P2: a caller that finds a bound context ended finds out why, even in the very instant in which its lease
// ends.
func TestABoundContextThatHasEndedSaysWhy(t *testing.T) {
	t.Parallel()
	lease := locktest.Must(t, reentrant.New(locktest.SteadySession(t, redistest.Start(t)), "a").Lock)
	parent, cancel := context.WithCancel(t.Context())
	defer cancel()
	nosy := &nosyContext{Context: parent}
	bound := lease.Bind(nosy)
	calls := 0
	nosy.onRemove = func() {
		calls++
		assert.ErrorIs(t, bound.Err(), context.Canceled)
		assert.ErrorIs(t, context.Cause(bound), signalbox.ErrReleased)
	}
	require.NoError(t, lease.Unlock())
	require.Positive(t, calls)
}

// P8: a hold ends with the last of its leases, in whatever order they end, and each of them
// ends with its own Unlock alone.
func TestLeasesEndInEveryOrderAndTheHoldWithTheLast(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := locktest.SteadySession(t, server, signalbox.WithPolling())
	for _, order := range [][3]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		name := fmt.Sprint("order ", order)
		mu := reentrant.New(s, name, signalbox.WithRenewedLease(longest))
		leases := []signalbox.Lease{locktest.Must(t, mu.Lock)}
		for range 2 {
			// Through the first each time, so that no context ends with another's lease.
			lease, err := mu.Lock(leases[0].Enter(t.Context()))
			require.NoError(t, err)
			leases = append(leases, lease)
		}
		for n, i := range order {
			require.True(t, isHeld(t, server, name))
			bound := leases[i].Bind(t.Context())
			sent := server.SentBy(func() { require.NoError(t, leases[i].Unlock()) })
			if n < 2 {
				require.Empty(t, sent, name)
			}
			require.ErrorIs(t, context.Cause(bound), signalbox.ErrReleased)
			require.ErrorIs(t, leases[i].Unlock(), signalbox.ErrNotHeld, name)
			for _, j := range order[n+1:] {
				require.NoError(t, leases[j].Err(), name)
				require.False(t, locktest.IsClosed(leases[j].Done()), name)
			}
		}
		require.False(t, isHeld(t, server, name))
	}
}

// P8: unlocking twice ends no other lease.
func TestUnlockingTwiceEndsNoOtherLease(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := reentrant.New(locktest.SteadySession(t, server), "a")
	first := locktest.Must(t, mu.Lock)
	require.NoError(t, first.Unlock())
	second := locktest.Must(t, mu.Lock)
	require.ErrorIs(t, first.Unlock(), signalbox.ErrNotHeld)
	require.ErrorIs(t, first.Err(), signalbox.ErrReleased)
	require.NoError(t, second.Err())
	require.True(t, isHeld(t, server, "a"))
	require.NoError(t, second.Unlock())
}

// P8: of goroutines that unlock one lease at once, one does it.
func TestOneOfManyUnlocksCounts(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := reentrant.New(locktest.SteadySession(t, server), "a")
	lease := locktest.Must(t, mu.Lock)
	results := make(chan error)
	for range 16 {
		go func() { results <- lease.Unlock() }()
	}
	done := 0
	for range 16 {
		if err := redistest.Receive(t, "a result", results); err == nil {
			done++
		} else {
			require.ErrorIs(t, err, signalbox.ErrNotHeld)
		}
	}
	require.Equal(t, 1, done)
	require.False(t, isHeld(t, server, "a"))
}

// P8: a lease belongs to no goroutine.
func TestAnyGoroutineMayUnlock(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	got := locktest.MustHave(t, locktest.LaterWith(t.Context(), reentrant.New(locktest.SteadySession(t, server), "a").Lock))
	require.NoError(t, got.Unlock())
	require.False(t, isHeld(t, server, "a"))
}

// P7: a lease that is held for days and bound for every request collects no contexts, and a
// bound context with children costs no goroutine.
func TestBoundContextsCostNoGoroutine(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	lease := locktest.Must(t, reentrant.New(locktest.SteadySession(t, server), "a").Lock)
	ended := make(chan struct{}, 100)
	for range 100 {
		child, cancel := context.WithCancel(lease.Enter(lease.Bind(t.Context())))
		context.AfterFunc(child, func() { ended <- struct{}{} })
		_ = cancel
	}
	require.NotContains(t, stacks(), "created by context.(*cancelCtx).propagateCancel in "+thisGoroutine()+"\n")
	require.NoError(t, lease.Unlock())
	for range 100 {
		redistest.Receive(t, "the end of a child", ended)
	}
}

// P4, P5: an Unlock that has no reply says until when the lock may be held, and the release is sent
// again in the background; so is one that was to hand the lock over by a script.
func TestUnlockWithoutAReplyIsRepeatedInTheBackground(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]signalbox.LockOption{
		"Released": nil, "HandedOver": {signalbox.WithLayout(redisson.Layout(redisson.Fenced))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			s := locktest.SteadySession(t, server)
			mu := reentrant.New(s, "a", options...)
			lease := locktest.Must(t, mu.Lock)
			if options != nil {
				waiting := locktest.Queue(t.Context(), t, mu.Lock)
				defer func() { require.NoError(t, locktest.MustHave(t, waiting).Unlock()) }()
			}
			(*session.Handle)(s).Session().UnlockPatience = 10 * time.Millisecond
			server.Freeze()
			err := lease.Unlock()
			(*session.Handle)(s).Session().UnlockPatience = redistest.Patience
			server.Thaw()
			require.ErrorIs(t, err, signalbox.ErrUnconfirmed)
			var unconfirmed *signalbox.UnconfirmedError
			require.ErrorAs(t, err, &unconfirmed)
			require.True(t, unconfirmed.KeyEnds.After(time.Now()))
			require.ErrorIs(t, lease.Err(), signalbox.ErrReleased)
			require.ErrorIs(t, lease.Unlock(), signalbox.ErrNotHeld)
			redistest.Await(t, "the release", func() bool { return !isHeld(t, server, "a") })
		})
	}
}
