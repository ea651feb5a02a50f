// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// P7: a closed session refuses everything, without a command.
func TestCloseRefusesNewWork(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newSession(t, server, signalbox.WithPolling()) // it does not begin to listen where the machine stalls in between
	mu := reentrant.New(s, "a")
	lease := mustLock(t, mu)
	require.NoError(t, lease.Unlock())
	require.NoError(t, s.Close(t.Context()))
	require.Empty(t, sentBy(server, func() {
		require.ErrorIs(t, mu.Check(), signalbox.ErrClosed)
		_, err := mu.Lock(t.Context())
		require.ErrorIs(t, err, signalbox.ErrClosed)
		_, err = mu.TryLock(t.Context())
		require.ErrorIs(t, err, signalbox.ErrClosed)
		_, err = reentrant.New(s, "b").Lock(t.Context())
		require.ErrorIs(t, err, signalbox.ErrClosed)
		require.ErrorIs(t, lease.Unlock(), signalbox.ErrNotHeld)
	}))
}

// P6: Close wakes who waits, in the queue of the session and at the server.
func TestCloseWakesWaiters(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	elsewhere := mustLock(t, reentrant.New(newSession(t, server), "a"))
	s := newSession(t, server)
	contending := contend(t, server, reentrant.New(s, "a"), "a")
	behindIt := queue(t, reentrant.New(s, "a"))
	lease := mustLock(t, reentrant.New(s, "b"))
	behindHolder := queue(t, reentrant.New(s, "b"))

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	closed := later(func() error { return s.Close(ctx) })
	require.ErrorIs(t, within(t, "the contender", contending), signalbox.ErrClosed)
	require.ErrorIs(t, within(t, "who queued behind the contender", behindIt), signalbox.ErrClosed)
	require.ErrorIs(t, within(t, "who queued behind a holder", behindHolder), signalbox.ErrClosed)
	require.NoError(t, lease.Err())
	require.NoError(t, lease.Unlock())
	require.NoError(t, within(t, "Close", closed))
	cancel()
	require.NoError(t, elsewhere.Unlock())
	require.Empty(t, held(t, server))
}

// P2: Close waits for holders, whose leases live on, renewals and entering again included.
func TestCloseWaitsForHolders(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newSession(t, server)
	mu := reentrant.New(s, "a", signalbox.RenewedLease(steady))
	lease := mustLock(t, mu)
	first := lease.Deadline()
	ctx := watched(patiently(t))
	closed := later(func() error { return s.Close(ctx) })
	within(t, "Close waits", ctx.listened)
	await(t, "two renewals", func() bool { return lease.Deadline().Sub(first) > steady/2 })
	again, err := mu.Lock(lease.Enter(t.Context()))
	require.NoError(t, err)
	require.NoError(t, lease.Unlock())
	require.False(t, isClosed(closed))
	require.NoError(t, again.Err())
	require.NoError(t, again.Unlock())
	require.NoError(t, within(t, "Close", closed))
	require.Empty(t, held(t, server))
}

// ownTime is what Close takes for giving back when its context leaves it nothing. What it has no answer to by then ends with its lease.
const ownTime = time.Second

// inItsOwnTime plays on until a Close in it took less than the time of its own, which a machine that stalls can use up.
func inItsOwnTime(t *testing.T, play func() (took time.Duration)) {
	t.Helper()
	await(t, "a Close that ends in its own time", func() bool { return play() < ownTime })
}

// P2, P4: when its context ends, Close ends the leases, here first, and gives the keys back.
func TestCloseEndsLeasesWhenItsContextEnds(t *testing.T) {
	t.Parallel()
	inItsOwnTime(t, func() time.Duration { return closeOverHolders(t) })
}

// closeOverHolders closes a session whose leases are held with a context that has ended, and answers how long that took.
func closeOverHolders(t *testing.T) time.Duration {
	t.Helper()
	server := redistest.Start(t)
	s := newSession(t, server)
	leases := make([]signalbox.Lease, 20)
	bound := make([]context.Context, len(leases))
	for i := range leases {
		leases[i] = mustLock(t, reentrant.New(s, fmt.Sprint(i)))
		bound[i] = leases[i].Bind(t.Context())
	}
	tired := errors.New("the deployment has waited long enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(tired)
	began := time.Now()
	err := s.Close(ctx)
	took := time.Since(began)
	require.ErrorIs(t, err, tired)
	for i, lease := range leases {
		require.ErrorIs(t, lease.Err(), signalbox.ErrLost)
		require.ErrorIs(t, lease.Err(), signalbox.ErrClosed)
		require.True(t, isClosed(lease.Done()))
		require.ErrorIs(t, context.Cause(bound[i]), signalbox.ErrClosed)
		require.ErrorIs(t, lease.Unlock(), signalbox.ErrLost)
	}
	if took < ownTime {
		require.Empty(t, held(t, server))
	}
	return took
}

// P2: a lease that is lost while Close waits is waited for no longer.
func TestCloseDoesNotWaitForTheLost(t *testing.T) {
	t.Parallel()
	s := newSession(t, redistest.Start(t))
	lease := mustLock(t, reentrant.New(s, "a", signalbox.FixedLease(shortest)))
	require.NoError(t, s.Close(t.Context()))
	require.ErrorIs(t, lease.Err(), signalbox.ErrLost)
}

func TestCloseTwiceIsFine(t *testing.T) {
	t.Parallel()
	s := newSession(t, redistest.Start(t))
	lease := mustLock(t, reentrant.New(s, "a"))
	require.Error(t, s.Close(endedContext()))
	require.ErrorIs(t, lease.Err(), signalbox.ErrLost)
	require.NoError(t, s.Close(t.Context()))
	require.NoError(t, s.Close(endedContext()))
}

// P6: a second Close blocks until the first is done, within its own context.
func TestASecondCloseWaitsForTheFirst(t *testing.T) {
	t.Parallel()
	s := newSession(t, redistest.Start(t))
	lease := mustLock(t, reentrant.New(s, "a"))
	ctx := watched(patiently(t))
	first := later(func() error { return s.Close(ctx) })
	within(t, "the first Close waits", ctx.listened)
	require.ErrorIs(t, s.Close(endedContext()), context.Canceled)
	second := later(func() error { return s.Close(patiently(t)) })
	require.False(t, isClosed(first))
	require.False(t, isClosed(second))
	require.NoError(t, lease.Err())
	require.NoError(t, lease.Unlock())
	require.NoError(t, within(t, "the first Close", first))
	require.NoError(t, within(t, "the second Close", second))
}

// P10: a context that is nil, and a grace out of bounds, are bad arguments.
func TestCloseRefusesBadArguments(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newSession(t, server)
	require.ErrorIs(t, s.Close(nil), signalbox.ErrBadOption) //nolint:staticcheck // the nil context is what is tested
	require.NoError(t, reentrant.New(s, "a").Check(), "it is not closed")
	for _, grace := range []time.Duration{-1, 0, 24*time.Hour + 1} {
		bad := newSession(t, server, signalbox.WithCloseGrace(grace))
		require.ErrorIs(t, reentrant.New(bad, "a").Check(), signalbox.ErrBadOption)
	}
	require.NoError(t, reentrant.New(newSession(t, server, signalbox.WithCloseGrace(24*time.Hour)), "a").Check())
}

func TestCloseOfASessionThatIsNoneIsFine(t *testing.T) {
	t.Parallel()
	var none *signalbox.Session
	require.NoError(t, none.Close(t.Context()))
	require.NoError(t, signalbox.NewSession(nil).Close(t.Context()))
}

// P4: goroutines that lock and unlock while the session is closed under them end, and leave no
// key behind, whatever was on its way: by the time that Close and they have returned.
func TestCloseUnderLoadLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, names := range []int{1, 8, 64} {
		closeUnderLoad(t.Context(), t, names)
		inItsOwnTime(t, func() time.Duration { return closeUnderLoad(endedContext(), t, names) })
	}
}

// closeUnderLoad closes a session under goroutines that want locks of so many names, and answers how long that took.
func closeUnderLoad(ctx context.Context, t *testing.T, names int) time.Duration {
	t.Helper()
	server := redistest.Start(t)
	s := newSession(t, server)
	const n = 64
	begun, ends := make(chan struct{}, n), make(chan error, n)
	for i := range n {
		mu := reentrant.New(s, fmt.Sprint(i%names))
		go func() { ends <- lockUntilRefused(mu, begun) }()
	}
	for range n {
		within(t, "a goroutine at work", begun)
	}
	began := time.Now()
	err := s.Close(ctx)
	took := time.Since(began)
	if ctx.Err() == nil {
		require.NoError(t, err)
	}
	inTime := ctx.Err() == nil || took < ownTime
	for range n {
		if err := within(t, "the end of a goroutine", ends); inTime {
			require.ErrorIs(t, err, signalbox.ErrClosed)
		}
	}
	if inTime {
		require.Empty(t, held(t, server), "%d names, %v", names, ctx.Err())
	}
	return took
}

// lockUntilRefused locks and unlocks until one of both fails, and answers why.
func lockUntilRefused(mu *reentrant.Lock, begun chan<- struct{}) error {
	begun <- struct{}{}
	for {
		lease, err := mu.Lock(context.Background())
		if err == nil {
			err = lease.Unlock()
		}
		if err != nil {
			return err
		}
	}
}

// P4: a try that is on its way when the session closes leaves no key, though its answer finds
// nobody any more.
func TestCloseTakesBackATryThatIsOnItsWay(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	s := newSession(t, proxy)
	mu := reentrant.New(s, "a")
	require.NoError(t, mustLock(t, mu).Unlock())
	sent, goOn := make(chan struct{}), make(chan struct{})
	var first atomic.Bool
	proxy.OnRequest(func(int, []string) {
		if first.CompareAndSwap(false, true) { // the second is what takes the try back
			close(sent)
			<-goOn
		}
	})
	trying := later(func() error {
		_, err := mu.Lock(context.Background())
		return err
	})
	within(t, "a try on its way", sent)
	closed := later(func() error { return s.Close(t.Context()) })
	await(t, "a session that is closed", func() bool { return mu.Check() != nil })
	close(goOn)
	require.NoError(t, within(t, "the end of Close", closed))
	require.ErrorIs(t, within(t, "the answer", trying), signalbox.ErrClosed)
	require.Empty(t, held(t, server))
}

// P6: Close is bounded also where the server does not answer.
func TestCloseTakesASecondAtMostForASilentServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newSession(t, server)
	const life = 15 * time.Second
	lease := mustLock(t, reentrant.New(s, "a", signalbox.RenewedLease(life)))
	server.Freeze()
	began := time.Now()
	require.Error(t, s.Close(endedContext()))
	require.Less(t, time.Since(began), life*2/3, "it waited for the end of the lease")
	require.ErrorIs(t, lease.Err(), signalbox.ErrClosed)
	server.Thaw()
	await(t, "the end of the key", func() bool { return len(held(t, server)) == 0 })
}

// connected answers the ids of the connections to a server, those that asked for them left out.
func connected(t *testing.T, server *redistest.Server) (ids []string) {
	t.Helper()
	list, _ := server.MustDo(t, "CLIENT", "LIST").(string)
	for line := range strings.Lines(list) {
		if id, _, _ := strings.Cut(line, " "); !strings.Contains(line, "cmd=client|list") {
			ids = append(ids, id)
		}
	}
	return ids
}

// P8: a client that was given stays open, one that was dialled is closed.
func TestCloseClosesTheClientThatItDialled(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t, signalbox.Tune)
	given := signalbox.NewSession(client)
	require.NoError(t, mustLock(t, reentrant.New(given, "a")).Unlock())
	require.NoError(t, given.Close(t.Context()))
	require.NoError(t, client.Do(t.Context(), client.B().Ping().Build()).Error())
	client.Close() // or it might connect again meanwhile

	before := connected(t, server)
	dialled, err := signalbox.Dial(t.Context(), server.URL())
	require.NoError(t, err)
	require.NoError(t, mustLock(t, reentrant.New(dialled, "a")).Unlock())
	others := func() int {
		return len(slices.DeleteFunc(connected(t, server), func(id string) bool { return slices.Contains(before, id) }))
	}
	require.Positive(t, others())
	require.NoError(t, dialled.Close(t.Context()))
	await(t, "the end of what was dialled", func() bool { return others() == 0 })
}
