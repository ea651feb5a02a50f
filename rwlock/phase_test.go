// SPDX-License-Identifier: Apache-2.0

package rwlock_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/rwlock"
	"github.com/signalbox-go/signalbox/scripts"
)

// newLocks answers the lock a of n sessions.
func newLocks(t *testing.T, at dialer, n int) []*rwlock.Lock {
	t.Helper()
	mus := make([]*rwlock.Lock, n)
	for i := range mus {
		mus[i] = newLock(t, at, "a")
	}
	return mus
}

// Order: a writer waits for the readers that were there before it, and for no others.
func TestAWriterWaitsForOnePhaseOfReaders(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mus := newLocks(t, server, 5)
	readers := []signalbox.Lease{must(t, mus[0], read), must(t, mus[1], read)}
	writer := queue(t.Context(), t, server, mus[2], write, 1)
	late := []<-chan outcome{queue(t.Context(), t, server, mus[3], read, 2), queue(t.Context(), t, server, mus[4], read, 3)}
	for _, lease := range readers {
		require.False(t, isClosed(writer))
		require.NoError(t, lease.Unlock())
	}
	lease := mustHave(t, writer)
	for _, l := range late {
		require.False(t, isClosed(l), "beside a writer")
	}
	require.NoError(t, lease.Unlock())
	for _, l := range late {
		require.NoError(t, mustHave(t, l).Unlock())
	}
}

// Order: readers wait for one writer: all that wait when it is done come in together, before the next.
func TestReadersThatWaitComeInTogetherBeforeTheNextWriter(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mus := newLocks(t, server, 6)
	lease := must(t, mus[0], write)
	for range 3 {
		first := queue(t.Context(), t, server, mus[1], read, 1)
		writer := queue(t.Context(), t, server, mus[2], write, 2)
		readers := []<-chan outcome{
			first, queue(t.Context(), t, server, mus[3], read, 3), follow(t.Context(), t, mus[3], 1),
			queue(t.Context(), t, server, mus[4], read, 4),
		}
		next := queue(t.Context(), t, server, mus[5], write, 5)
		require.NoError(t, lease.Unlock())
		var leases []signalbox.Lease
		for _, r := range readers {
			leases = append(leases, mustHave(t, r))
		}
		for _, reader := range leases {
			require.False(t, isClosed(writer))
			require.NoError(t, reader.Err())
			require.NoError(t, reader.Unlock())
		}
		lease = mustHave(t, writer)
		require.False(t, isClosed(next))
		require.NoError(t, lease.Unlock())
		lease = mustHave(t, next)
	}
	require.NoError(t, lease.Unlock())
}

// Order: a writer that waits closes the door, in its own session, in that of readers that have the lock, and elsewhere.
func TestALateReaderDoesNotPassAWriterThatWaits(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mus := newLocks(t, server, 3)
	reader := must(t, mus[0], read)
	writer := queue(t.Context(), t, server, mus[1], write, 1)
	pass(2 * rwlock.ShareFor) // those that enter until then belong to the phase
	var late []<-chan outcome
	for n, mu := range mus {
		require.ErrorIs(t, second(mu.TryRLock(t.Context())), signalbox.ErrHeld)
		late = append(late, queue(t.Context(), t, server, mu, read, n+2))
	}
	require.NoError(t, reader.Err())
	require.NoError(t, reader.Unlock())
	lease := mustHave(t, writer)
	for _, l := range late {
		require.False(t, isClosed(l))
	}
	require.NoError(t, lease.Unlock())
	for _, l := range late {
		require.NoError(t, mustHave(t, l).Unlock())
	}
}

// P6: the door opens when the writer gives up, by a message: the readers behind it come in beside those that are there.
func TestTheDoorOpensWhenTheWriterThatWaitsGivesUp(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	holder, writer, mu := newLock(t, server, "a"), newLock(t, server, "a"), newLock(t, proxy, "a")
	proxy.SetMatch(isOf(scripts.RWLockLook))
	reader := must(t, holder, read)
	await(t, "an open door of which a message told, and no look", func() bool {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		waiting := queue(ctx, t, server, writer, write, 1)
		late := queue(t.Context(), t, server, mu, read, 2)
		await(t, "subscriptions", func() bool {
			channels, _ := server.MustDo(t, "PUBSUB", "CHANNELS", "sb:grants:*").([]any)
			return len(channels) == 2
		})
		before := proxy.Requests()
		cancel()
		require.ErrorIs(t, mustFail(t, waiting), context.Canceled)
		lease := mustHave(t, late)
		quick := proxy.Requests() == before
		require.NoError(t, lease.Unlock())
		require.NoError(t, reader.Err())
		return quick
	})
	require.NoError(t, reader.Unlock())
}

// P6: a writer that died keeps the door closed for as long as it counts as living, and no longer, though the reader
// that it waited for stays.
func TestTheDoorOpensWhenTheWriterThatWaitsDies(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	reader := must(t, newLock(t, server, "a"), read)
	ctx, cancel := context.WithCancel(t.Context())
	dead := queue(ctx, t, server, newLock(t, proxy, "a"), write, 1)
	late := queue(t.Context(), t, server, newLock(t, server, "a"), read, 2)
	proxy.HalfOpenAll()
	proxy.Refuse()
	lease := mustHave(t, late)
	require.NoError(t, reader.Err())
	require.NoError(t, reader.Unlock())
	require.NoError(t, lease.Unlock())
	cancel()
	_ = mustFail(t, dead)
	proxy.CutAll()
}

// Order: a writer that does not wait closes nothing, and leaves no ticket.
func TestATryLockThatFailsClosesNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mus := newLocks(t, server, 6)
	leases := []signalbox.Lease{must(t, mus[0], read)}
	for _, mu := range mus[1:] {
		for range 10 {
			require.ErrorIs(t, second(mus[5].TryLock(t.Context())), signalbox.ErrHeld)
		}
		if mu != mus[5] {
			leases = append(leases, must(t, mu, tryRead))
		}
		require.Zero(t, inLine(t, server, "a"))
	}
	for _, lease := range leases {
		require.NoError(t, lease.Unlock())
	}
	require.NoError(t, must(t, mus[5], tryWrite).Unlock())
}

// TryLock goes before nobody: not before a writer in line, nor before the readers of the next phase.
func TestTryLockNeverGoesBeforeAWaiter(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mus := newLocks(t, server, 4)
	lease := must(t, mus[0], write)
	ctx, cancel := context.WithCancel(t.Context())
	var jumping sync.WaitGroup
	jumping.Go(func() {
		for ctx.Err() == nil {
			if lease, err := mus[3].TryLock(ctx); err == nil {
				t.Error("it went before somebody")
				_ = lease.Unlock()
			}
		}
	})
	// From hand to hand: there is always one who waits, or who has it.
	for n := range 60 {
		waiting := queue(t.Context(), t, server, mus[(n+1)%3], []side{read, write}[n%2], 1)
		require.NoError(t, lease.Unlock())
		lease = mustHave(t, waiting)
	}
	cancel()
	jumping.Wait()
	require.NoError(t, lease.Unlock())
}

// P6: a message that is lost costs a look: readers and writers find out that they have the lock.
func TestALostMessageCostsALook(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	holder, mu := newLock(t, server, "a"), newLock(t, proxy, "a")
	lease := must(t, holder, write)
	writer := queue(t.Context(), t, server, mu, write, 1)
	readers := []<-chan outcome{queue(t.Context(), t, server, mu, read, 2), follow(t.Context(), t, mu, 1), follow(t.Context(), t, mu, 2)}
	proxy.DropPushes(true)
	require.NoError(t, lease.Unlock())
	var leases []signalbox.Lease
	for _, r := range readers {
		leases = append(leases, mustHave(t, r))
	}
	for _, lease := range leases {
		require.False(t, isClosed(writer))
		require.NoError(t, lease.Err())
		require.NoError(t, lease.Unlock())
	}
	require.NoError(t, mustHave(t, writer).Unlock())
}

// P6: where the server lost everything those who wait form new lines, and have the lock one after the other.
func TestThoseWhoWaitOutliveAServerThatLostEverything(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mus := newLocks(t, server, 3)
	lost := must(t, newLock(t, server, "a", signalbox.RenewedLease(steady)), read)
	waiting := []<-chan outcome{
		queue(t.Context(), t, server, mus[0], write, 1), queue(t.Context(), t, server, mus[1], read, 2),
		follow(t.Context(), t, mus[1], 1), queue(t.Context(), t, server, mus[2], write, 3),
	}
	server.MustDo(t, "FLUSHALL")
	within(t, "the loss", lost.Done())
	require.ErrorIs(t, lost.Unlock(), signalbox.ErrLost)
	for len(waiting) > 0 { // in any order
		for n, w := range waiting {
			select {
			case got := <-w:
				require.NoError(t, got.err)
				require.NoError(t, got.lease.Err())
				require.NoError(t, got.lease.Unlock())
				waiting = append(waiting[:n:n], waiting[n+1:]...)
			case <-time.NewTimer(shortest / 10).C:
				continue
			}
			break
		}
	}
	awaitFree(t, server, "a")
}

// P6: neither side starves, though the other never leaves the lock free.
func TestNeitherSideStarves(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		crowd, one func(*rwlock.Lock) func(context.Context, func(context.Context, signalbox.Lease) error) error
	}{
		"WriterAmongReaders": {rdo, do},
		"ReaderAmongWriters": {do, rdo},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			mus := newLocks(t, server, 4)
			var stop atomic.Bool
			var crowd sync.WaitGroup
			for n := range 6 {
				crowd.Go(func() {
					for !stop.Load() {
						if err := c.crowd(mus[n%3])(t.Context(), func(context.Context, signalbox.Lease) error {
							pass(shortest / 20) // so that others come meanwhile
							return nil
						}); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
			defer cancel()
			for range 15 {
				if err := c.one(mus[3])(ctx, func(context.Context, signalbox.Lease) error { return nil }); err != nil {
					t.Error("starved:", err)
					break
				}
			}
			stop.Store(true)
			crowd.Wait()
		})
	}
}

func do(mu *rwlock.Lock) func(context.Context, func(context.Context, signalbox.Lease) error) error {
	return mu.Do
}

func rdo(mu *rwlock.Lock) func(context.Context, func(context.Context, signalbox.Lease) error) error {
	return mu.RDo
}
