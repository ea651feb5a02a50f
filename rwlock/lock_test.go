// SPDX-License-Identifier: Apache-2.0

package rwlock_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/rwlock"
	"github.com/signalbox-go/signalbox/scripts"
)

// yard is what the lock under test protects: it notes whoever is where it must not be.
type yard struct {
	readers, writers atomic.Int32
	last             uint64        // token of the last writer; guarded by the lock under test
	lastRead         atomic.Uint64 // greatest token of a reader
}

func (y *yard) write(_ context.Context, lease signalbox.Lease) error {
	defer y.writers.Add(-1)
	if y.writers.Add(1) != 1 || y.readers.Load() != 0 {
		return errors.New("a writer is not alone")
	}
	if lease.Token() <= y.last || lease.Token() <= y.lastRead.Load() {
		return errors.New("a writer's token is not greater than all before")
	}
	y.last = lease.Token()
	return nil
}

// writeAndRead writes, and reads on by a downgrade.
func (y *yard) writeAndRead(mu *rwlock.Lock) func(context.Context, signalbox.Lease) error {
	return func(ctx context.Context, lease signalbox.Lease) error {
		if err := y.write(ctx, lease); err != nil {
			return err
		}
		y.readers.Add(1) // it counts as a reader, and as one that was a writer
		defer y.readers.Add(-1)
		if err := mu.Downgrade(context.WithoutCancel(ctx), lease); err != nil {
			return err
		}
		if y.last != lease.Token() || y.writers.Load() != 0 {
			return errors.New("somebody wrote behind a downgrade")
		}
		return nil
	}
}

func (y *yard) read(_ context.Context, lease signalbox.Lease) error {
	defer y.readers.Add(-1)
	if y.readers.Add(1); y.writers.Load() != 0 {
		return errors.New("a reader beside a writer")
	}
	if lease.Token() <= y.last {
		return errors.New("a reader's token is not greater than that of the last writer")
	}
	for seen := y.lastRead.Load(); seen < lease.Token() && !y.lastRead.CompareAndSwap(seen, lease.Token()); {
		seen = y.lastRead.Load()
	}
	return nil
}

// P1, P3: a writer is alone, over sessions and goroutines, and tokens rise with it.
func TestAWriterIsAloneAndTokensRise(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	work(t, func() *rwlock.Lock { return newLock(t, server, "a") })
	require.Zero(t, inLine(t, server, "a"))
	for _, key := range server.Keys("*") {
		require.Positive(t, integer(t, server.MustDo(t, "PTTL", key)), "%s has no end", key)
	}
}

// work lets goroutines of several sessions read and write, who note whoever is where it must not be.
func work(t *testing.T, lockOf func() *rwlock.Lock) {
	t.Helper()
	const sessions, goroutines, rounds = 4, 6, 25
	var place yard
	var all sync.WaitGroup
	for range sessions {
		mu := lockOf()
		for n := range goroutines {
			all.Go(func() {
				for range rounds {
					take, do := mu.RDo, place.read
					switch {
					case n == 0:
						take, do = mu.Do, place.writeAndRead(mu)
					case n%3 == 0:
						take, do = mu.Do, place.write
					}
					if err := take(t.Context(), do); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	all.Wait()
}

// Readers are beside each other, in one session and in several.
func TestReadersAreBesideEachOther(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	one, other := newLock(t, server, "a"), newLock(t, server, "a")
	var leases []signalbox.Lease
	for _, mu := range []*rwlock.Lock{one, one, other, other, one} {
		leases = append(leases, must(t, mu, read))
	}
	writer := queue(t.Context(), t, server, newLock(t, server, "a"), write, 1)
	for _, lease := range leases {
		require.False(t, isClosed(writer), "beside a reader")
		require.NoError(t, lease.Err())
		require.NoError(t, lease.Unlock())
	}
	require.NoError(t, mustHave(t, writer).Unlock())
}

// P3: a writer's token is greater than those of all before it, a reader's than those of all writers before it; those
// that share a hold share a token.
func TestTokensRiseWithEveryWriter(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	one, other := newLock(t, server, "a"), newLock(t, server, "a")
	var last uint64
	for range 5 {
		lease := must(t, one, write)
		require.Greater(t, lease.Token(), last)
		writer := lease.Token()
		require.NoError(t, lease.Unlock())
		first, second, third := must(t, one, read), must(t, one, read), must(t, other, read)
		require.Equal(t, first.Token(), second.Token())
		require.Greater(t, first.Token(), writer)
		require.Greater(t, third.Token(), writer)
		last = max(first.Token(), third.Token())
		for _, lease := range []signalbox.Lease{first, second, third} {
			require.NoError(t, lease.Unlock())
		}
	}
}

// Order: writers have the lock in the order in which they asked for it.
func TestWritersComeInTheOrderInWhichTheyAsked(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mus := []*rwlock.Lock{newLock(t, server, "a"), newLock(t, server, "a"), newLock(t, server, "a")}
	lease := must(t, mus[0], write)
	var waiting []<-chan outcome
	for n := range 9 {
		waiting = append(waiting, queue(t.Context(), t, server, mus[n*n%3], write, n+1))
	}
	for n, next := range waiting {
		require.NoError(t, lease.Unlock())
		lease = mustHave(t, next)
		for _, after := range waiting[n+1:] {
			require.False(t, isClosed(after))
		}
	}
	require.NoError(t, lease.Unlock())
}

// P6: a release tells the next one, long before it would look by itself.
func TestALockIsTakenAsSoonAsItIsReleasedElsewhere(t *testing.T) {
	t.Parallel()
	for name, take := range map[string]side{"Write": write, "Read": read} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			proxy := redistest.NewProxy(t, server.Addr())
			holder, mu := newLock(t, server, "a"), newLock(t, proxy, "a")
			proxy.SetMatch(isOf(scripts.RWLockLook))
			await(t, "a grant of which a message told, and no look", func() bool {
				lease := must(t, holder, write)
				waiting := queue(t.Context(), t, server, mu, take, 1)
				await(t, "a subscription", func() bool {
					channels, _ := server.MustDo(t, "PUBSUB", "CHANNELS", "sb:grants:*").([]any)
					return len(channels) == 1
				})
				before := proxy.Requests()
				require.NoError(t, lease.Unlock())
				next := mustHave(t, waiting)
				require.Greater(t, next.Token(), lease.Token())
				require.NoError(t, next.Unlock())
				return proxy.Requests() == before
			})
		})
	}
}

// P10: every error says what was asked of which lock.
func TestErrorsNameTheOperationAndTheLock(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	holder := must(t, newLock(t, server, "a"), write)
	mu := newLock(t, server, "a")
	var none signalbox.Lease
	nothing := func(context.Context, signalbox.Lease) error { return nil }
	for op, errs := range map[string][]error{
		"try lock":      {second(mu.TryLock(t.Context()))},
		"try read lock": {second(mu.TryRLock(t.Context()))},
		"lock":          {second(mu.Lock(endedContext())), mu.Do(endedContext(), nothing), panicOf(mu.Locker(endedContext()).Lock)},
		"read lock":     {second(mu.RLock(endedContext())), mu.RDo(endedContext(), nothing), panicOf(mu.RLocker(endedContext()).Lock)},
		"downgrade":     {mu.Downgrade(t.Context(), none)},
		"force unlock":  {newLock(t, server, "b").ForceUnlock(t.Context())},
	} {
		for _, err := range errs {
			var of *signalbox.OpError
			require.ErrorAs(t, err, &of, op)
			require.Equal(t, op, of.Op)
			if op != "force unlock" {
				require.Equal(t, "a", of.Name)
			}
		}
	}
	require.EqualError(t, second(mu.TryRLock(t.Context())), `signalbox: try read lock "a": the lock is held`)
	require.NoError(t, holder.Unlock())
}

func second(_ signalbox.Lease, err error) error { return err }
