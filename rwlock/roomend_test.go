// SPDX-License-Identifier: Apache-2.0

package rwlock_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/rwlock"
	"github.com/signalbox-go/signalbox/scripts"
)

// led --refused--> the leader's error; the next leads, and hears its own.
func TestARefusalIsToldToEveryReader(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	mu := newLock(t, proxy, "a")
	require.NoError(t, must(t, mu, read).Unlock())
	server.MustDo(t, "DEL", holderKey("a"))
	server.MustDo(t, "RPUSH", holderKey("a"), "mine")
	goOn := make(chan struct{})
	arrived := make(chan struct{}, 100)
	proxy.SetMatch(isOf(scripts.RWLockEnter))
	proxy.OnRequest(func(int, []string) { arrived <- struct{}{}; <-goOn })
	waiting := []<-chan outcome{later(t.Context(), mu, read)}
	within(t, "the request", arrived)
	for n := range 5 {
		waiting = append(waiting, follow(t.Context(), t, mu, n+1))
	}
	close(goOn)
	for _, w := range waiting {
		require.ErrorIs(t, mustFail(t, w), signalbox.ErrWrongKind)
	}
	await(t, "an empty room", func() bool { return mu.Rooms() == 0 })
}

// P6: Close sends them all away, the leader and those who wait for it, and waits for readers.
func TestCloseSendsTheWholeRoomAway(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newSession(t, server, signalbox.WithCloseGrace(patience))
	mu := rwlock.New(s, "a")
	old := must(t, mu, read)
	writer := queue(t.Context(), t, server, newLock(t, server, "a"), write, 1)
	pass(2 * rwlock.ShareFor)
	waiting := []<-chan outcome{queue(t.Context(), t, server, mu, read, 2)}
	for n := range 5 {
		waiting = append(waiting, follow(t.Context(), t, mu, n+1))
	}
	closed := make(chan error, 1)
	go func() { closed <- s.Close(t.Context()) }()
	for _, w := range waiting {
		require.ErrorIs(t, mustFail(t, w), signalbox.ErrClosed)
	}
	require.False(t, isClosed(closed))
	require.NoError(t, old.Err())
	require.ErrorIs(t, second(mu.RLock(t.Context())), signalbox.ErrClosed, "beside a reader, too")
	require.NoError(t, old.Unlock())
	require.NoError(t, within(t, "the end of Close", closed))
	require.Zero(t, mu.Rooms())
	require.NoError(t, mustHave(t, writer).Unlock())
}

// P6: though the leader's call is not answered.
func TestCloseSendsThoseAwayWhoWaitForALeaderWhoIsNotAnswered(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	s := newPatient(t, proxy)
	mu := rwlock.New(s, "a")
	require.NoError(t, must(t, mu, read).Unlock()) // teaches the server the script
	proxy.SetMatch(isOf(scripts.RWLockEnter))
	proxy.ResetCount()
	struck := proxy.Arm(redistest.Fault{Kind: redistest.SwallowRequest})
	leader := later(t.Context(), mu, read)
	within(t, "its call", struck.Fired())
	waiting := []<-chan outcome{follow(t.Context(), t, mu, 1), follow(t.Context(), t, mu, 2)}
	require.Error(t, s.Close(endedContext()))
	for _, w := range waiting {
		require.ErrorIs(t, mustFail(t, w), signalbox.ErrClosed)
	}
	require.False(t, isClosed(leader), "nothing answers its call")
	proxy.Disarm()
	proxy.CutAll()
	require.ErrorIs(t, mustFail(t, leader), signalbox.ErrClosed)
	require.Zero(t, mu.Rooms())
}

// open -> empty: whoever joins as the last one leaves has the lock, of that hold or of another.
func TestAReaderThatComesAsTheLastLeavesHasTheLock(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := newLock(t, server, "a")
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			for range 300 {
				lease, err := mu.RLock(t.Context())
				if err == nil {
					err = lease.Err()
				}
				if err == nil {
					err = lease.Unlock()
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	require.Zero(t, mu.Rooms())
	require.False(t, isHeld(t, server, "a"))
}

// open -> empty: nobody enters a hold that is lost; those who come have one of their own.
func TestNobodyEntersAHoldThatIsLost(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := newLock(t, server, "a", signalbox.RenewedLease(steady))
	lost := []signalbox.Lease{must(t, mu, read), must(t, mu, read)}
	server.MustDo(t, "DEL", holderKey("a"))
	pass(2 * rwlock.ShareFor)
	next := must(t, mu, read) // the door is asked, and says so
	require.Greater(t, next.Token(), lost[0].Token())
	for _, lease := range lost {
		within(t, "the loss", lease.Done())
		require.ErrorIs(t, lease.Unlock(), signalbox.ErrLost)
	}
	require.NoError(t, next.Err())
	require.NoError(t, next.Unlock())
	await(t, "an empty room", func() bool { return mu.Rooms() == 0 }) // what is lost goes behind its Done

	server.MustDo(t, "DEL", holderKey("a"))
	lost = []signalbox.Lease{must(t, mu, read)}
	server.MustDo(t, "DEL", holderKey("a"))
	within(t, "the loss", lost[0].Done())
	next = must(t, mu, read) // known here: the server is not asked
	require.Greater(t, next.Token(), lost[0].Token())
	require.NoError(t, next.Unlock())
	await(t, "an empty room", func() bool { return mu.Rooms() == 0 })
}

// A question at the door that is not answered lets nobody in, and keeps nobody out.
func TestAQuestionAtTheDoorThatIsNotAnsweredKeepsNobodyOut(t *testing.T) {
	t.Parallel()
	for _, kind := range []redistest.Kind{redistest.CutBeforeRequest, redistest.CutAfterRequest} {
		for name, take := range map[string]side{"RLock": read, "TryRLock": tryRead} {
			t.Run(name+kind.String(), func(t *testing.T) {
				t.Parallel()
				server := redistest.Start(t)
				proxy := redistest.NewProxy(t, server.Addr())
				mu := newLock(t, proxy, "a")
				old := must(t, mu, read)
				pass(2 * rwlock.ShareFor)
				proxy.SetMatch(isOf(scripts.RWLockDoor))
				proxy.ResetCount()
				fault := proxy.Arm(redistest.Fault{Kind: kind})
				next := must(t, mu, take)
				require.True(t, fault.HasFired())
				require.NoError(t, old.Err())
				require.NoError(t, old.Unlock())
				require.NoError(t, next.Unlock())
				awaitFree(t, server, "a")
				require.Zero(t, mu.Rooms())
			})
		}
	}
}

// P4: wherever contexts end, nobody is left waiting, and nothing is left behind, here or on the server.
func TestWhereverContextsEndNothingIsLeft(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mus := newLocks(t, server, 2)
	var place yard
	var all sync.WaitGroup
	for n := range 24 {
		mu := mus[n%2]
		all.Go(func() {
			for range 40 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(6000))*time.Microsecond)
				take, do := mu.RDo, place.read
				switch n % 8 {
				case 0:
					take, do = mu.Do, place.write
				case 1:
					take, do = mu.Do, place.writeAndRead(mu)
				}
				err := take(ctx, do)
				cancel()
				if err != nil && !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	within(t, "the end of all", done)
	for _, mu := range mus {
		require.Zero(t, mu.Rooms())
	}
	awaitFree(t, server, "a")
	require.NoError(t, must(t, mus[0], write).Unlock())
}
