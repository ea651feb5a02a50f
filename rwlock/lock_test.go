// SPDX-License-Identifier: Apache-2.0

package rwlock_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
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
	const sessions, goroutines, rounds = 4, 6, 25
	var place yard
	var all sync.WaitGroup
	for range sessions {
		mu := newLock(t, server, "a")
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
	require.Zero(t, inLine(t, server, "a"))
	for _, key := range server.Keys("*") {
		require.Positive(t, integer(t, server.MustDo(t, "PTTL", key)), "%s has no end", key)
	}
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
			quick := 0
			for range 10 {
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
				if proxy.Requests() == before {
					quick++
				}
			}
			require.Positive(t, quick, "looks, and no messages, told of the grants")
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
	for op, err := range map[string]error{
		"try lock":      second(mu.TryLock(t.Context())),
		"try read lock": second(mu.TryRLock(t.Context())),
		"lock":          second(mu.Lock(endedContext())),
		"read lock":     second(mu.RLock(endedContext())),
		"downgrade":     mu.Downgrade(t.Context(), none),
		"force unlock":  newLock(t, server, "b").ForceUnlock(t.Context()),
	} {
		var of *signalbox.OpError
		require.ErrorAs(t, err, &of, op)
		require.Equal(t, op, of.Op)
		if op != "force unlock" {
			require.Equal(t, "a", of.Name)
		}
	}
	require.EqualError(t, second(mu.TryRLock(t.Context())), `signalbox: try read lock "a": the lock is held`)
	require.NoError(t, holder.Unlock())
}

func second(_ signalbox.Lease, err error) error { return err }

// The Try forms take what is free: a reader beside readers, a writer where nobody is.
func TestTryTakesWhatIsFree(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	one, other := newLock(t, server, "a"), newLock(t, server, "a")
	for range 3 {
		lease := must(t, one, tryWrite)
		for _, mu := range []*rwlock.Lock{one, other} {
			require.ErrorIs(t, second(mu.TryLock(t.Context())), signalbox.ErrHeld)
			require.ErrorIs(t, second(mu.TryRLock(t.Context())), signalbox.ErrHeld)
		}
		require.NoError(t, lease.Unlock())
		first, beside, elsewhere := must(t, one, tryRead), must(t, one, tryRead), must(t, other, tryRead)
		for _, lease := range []signalbox.Lease{first, beside, elsewhere} {
			for _, mu := range []*rwlock.Lock{one, other} {
				require.ErrorIs(t, second(mu.TryLock(t.Context())), signalbox.ErrHeld)
			}
			require.NoError(t, lease.Unlock())
		}
		require.False(t, isHeld(t, server, "a"))
	}
}

// P7: a writer's TryLock is not sent while the session has the lock or wants it.
func TestTryLockIsRefusedWithoutACommandWhereTheSessionKnows(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	holder := newLock(t, server, "a")
	for _, take := range []side{write, read} {
		lease := must(t, holder, take)
		require.Empty(t, sentBy(server, func() {
			require.ErrorIs(t, second(holder.TryLock(t.Context())), signalbox.ErrHeld)
		}))
		require.NoError(t, lease.Unlock())
	}
	lease := must(t, holder, write)
	proxy := redistest.NewProxy(t, server.Addr())
	mu := newLock(t, proxy, "a")
	waiting := queue(t.Context(), t, server, mu, read, 1)
	proxy.SetMatch(isOf(scripts.RWLockEnter))
	proxy.ResetCount()
	require.ErrorIs(t, second(mu.TryLock(t.Context())), signalbox.ErrHeld)
	require.Zero(t, proxy.Requests())
	await(t, "a reader that knows that another stands in line", func() bool {
		before := proxy.Requests()
		require.ErrorIs(t, second(mu.TryRLock(t.Context())), signalbox.ErrHeld)
		return proxy.Requests() == before
	})
	require.NoError(t, lease.Unlock())
	require.NoError(t, mustHave(t, waiting).Unlock())
}

// TryRLock answers ErrHeld for a writer, and never because another reader is about to enter.
func TestTryRLockIsNeverRefusedForAReader(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for round := range 20 {
		mus := []*rwlock.Lock{newLock(t, server, "a"), newLock(t, server, "a")}
		var all sync.WaitGroup
		for n := range 16 {
			take := tryRead
			if n%5 == 0 {
				take = read
			}
			all.Go(func() {
				for range 5 {
					lease, err := take(mus[n%2], t.Context())
					if err != nil {
						t.Error(round, n, err)
						return
					}
					if err := lease.Unlock(); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		require.Zero(t, mus[0].Rooms()+mus[1].Rooms())
	}
	require.False(t, isHeld(t, server, "a"))
}

// P10: the error says both that the wait is over and what the server said last; also that of a reader who waited for
// another.
func TestErrHeldIsJoinedWhereTheLastAnswerWasHeld(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	holder := must(t, newLock(t, server, "a"), write)
	stopped := errors.New("the request was dropped")
	mu := newLock(t, proxy, "a")
	for _, want := range []error{context.Canceled, stopped} {
		for _, take := range []side{write, read} {
			ctx, cancel := context.WithCancelCause(t.Context())
			waiting := []<-chan outcome{queue(ctx, t, server, mu, take, 1)}
			if users, _ := mu.InRoom(); users > 0 {
				waiting = append(waiting, follow(ctx, t, mu, 1))
			}
			proxy.SetMatch(isOf(scripts.RWLockLook))
			looks := proxy.Replies()
			await(t, "a look, after the answer", func() bool { return proxy.Replies() > looks })
			cancel(want)
			for _, answered := range waiting {
				err := mustFail(t, answered)
				require.ErrorIs(t, err, signalbox.ErrHeld)
				require.ErrorIs(t, err, want)
				require.ErrorIs(t, err, context.Canceled)
			}
			await(t, "the leaving", func() bool { return inLine(t, server, "a") == 0 })
		}
	}
	require.NoError(t, holder.Unlock())
}

// P10: a server that is away is waited for within the context, and named in the error. Nobody said that the lock is held.
func TestAnUnreachableServerIsWaitedForWithinTheContext(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for name, take := range map[string]side{"Write": write, "Read": read} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy := redistest.NewProxy(t, server.Addr())
			mu := newLock(t, proxy, name)
			require.NoError(t, must(t, mu, take).Unlock())
			proxy.Refuse()
			proxy.CutAll()
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			_, err := take(mu, ctx)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.NotErrorIs(t, err, signalbox.ErrHeld)
			var refused *net.OpError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, "dial", refused.Op)
			waiting := later(t.Context(), mu, take)
			proxy.Accept()
			require.NoError(t, mustHave(t, waiting).Unlock())
		})
	}
}

// P4: an ended context acquires nothing and sends nothing, also where a reader could enter without the server.
func TestAnEndedContextAcquiresNothingAndSendsNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu, free := newLock(t, server, "a"), newLock(t, server, "b")
	require.NoError(t, must(t, free, write).Unlock())
	reader := must(t, mu, read)
	stopped := errors.New("the request was dropped")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stopped)
	nobody := func(context.Context, signalbox.Lease) error {
		t.Error("an ended context got the lock")
		return nil
	}
	require.Empty(t, sentBy(server, func() {
		for _, mu := range []*rwlock.Lock{mu, free} {
			for _, take := range []side{tryWrite, tryRead, write, read} {
				_, err := take(mu, ctx)
				require.ErrorIs(t, err, context.Canceled)
				require.ErrorIs(t, err, stopped)
				require.NotErrorIs(t, err, signalbox.ErrHeld)
			}
			require.ErrorIs(t, mu.Do(ctx, nobody), stopped)
			require.ErrorIs(t, mu.RDo(ctx, nobody), stopped)
			require.ErrorIs(t, mu.ForceUnlock(ctx), stopped)
			for _, err := range mu.Holders(ctx) {
				require.ErrorIs(t, err, stopped)
			}
		}
	}))
	require.NoError(t, reader.Unlock())
}

// P4: a call whose answer never came is undone as soon as the server hears of it.
func TestACallWithoutAnAnswerIsUndone(t *testing.T) {
	t.Parallel()
	for name, take := range map[string]side{"Write": write, "Read": read, "TryWrite": tryWrite, "TryRead": tryRead} {
		for _, kind := range []redistest.Kind{redistest.CutAfterRequest, redistest.DelayReply, redistest.DelayRequest} {
			t.Run(name+kind.String(), func(t *testing.T) {
				t.Parallel()
				server := redistest.Start(t)
				proxy := redistest.NewProxy(t, server.Addr())
				mu := newLock(t, proxy, "a")
				require.NoError(t, must(t, mu, take).Unlock())
				proxy.Refuse()
				lost := proxy.Arm(redistest.Fault{Kind: kind, Delay: 50 * time.Millisecond})
				ctx, cancel := context.WithCancel(t.Context())
				trying := later(ctx, mu, take)
				within(t, "the fault", lost.Fired())
				cancel()
				_ = mustFail(t, trying)
				proxy.Accept()
				other := newLock(t, server, "a")
				require.NoError(t, must(t, other, write).Unlock())
				awaitFree(t, server, "a")
			})
		}
	}
}

// P9: locks of all kinds keep each other out while one is held or queued for.
func TestAnotherKindsLockIsErrWrongKind(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for name, take := range map[string]func(*signalbox.Session) (signalbox.Lease, error){
		"reentrant": func(s *signalbox.Session) (signalbox.Lease, error) {
			return reentrant.New(s, "reentrant").Lock(t.Context())
		},
		"fair": func(s *signalbox.Session) (signalbox.Lease, error) { return fair.New(s, "fair").Lock(t.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			other, mu := newSession(t, server), newLock(t, server, name)
			lease, err := take(other)
			require.NoError(t, err)
			for _, take := range []side{tryWrite, tryRead, write, read} {
				_, err := take(mu, t.Context())
				require.ErrorIs(t, err, signalbox.ErrWrongKind)
				require.ErrorContains(t, err, "("+name+")")
			}
			require.ErrorIs(t, mu.ForceUnlock(t.Context()), signalbox.ErrWrongKind)
			require.Zero(t, inLine(t, server, name))
			require.Zero(t, mu.Rooms())
			require.NoError(t, lease.Err())
			require.NoError(t, lease.Unlock())

			for _, side := range []side{write, read} {
				ours := must(t, mu, side)
				require.Greater(t, ours.Token(), lease.Token(), "the floor is that of the name")
				_, err = take(other)
				require.ErrorIs(t, err, signalbox.ErrWrongKind)
				require.NoError(t, ours.Unlock())
				lease, err = take(other)
				require.NoError(t, err)
				require.Greater(t, lease.Token(), ours.Token())
				require.NoError(t, lease.Unlock())
			}
		})
	}
}

// P9: somebody else's key is an error at once, and stays as it is.
func TestAForeignKeyIsErrWrongKindAndUntouched(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newSession(t, server)
	for name, set := range map[string][]any{
		"string": {"SET", "x"}, "garbage": {"SET", "sb1-garbage"}, "later": {"SET", "sb2w0123456789012345"},
		"list": {"RPUSH", "x", "y"}, "zset": {"ZADD", 1, "x"}, "semaphore": {"ZADD", 1, "sb1s"}, "hash": {"HSET", "x", "y"},
		"redisson": {"HSET", "mode", "read", "0123:1", "1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key := holderKey(name)
			server.MustDo(t, append([]any{set[0], key}, set[1:]...)...)
			before := server.MustDo(t, "DUMP", key)
			mu := rwlock.New(s, name)
			for _, take := range []side{tryWrite, tryRead, write, read} {
				_, err := take(mu, t.Context())
				require.ErrorIs(t, err, signalbox.ErrWrongKind)
			}
			require.ErrorIs(t, mu.ForceUnlock(t.Context()), signalbox.ErrWrongKind)
			for _, err := range mu.Holders(t.Context()) {
				require.ErrorIs(t, err, signalbox.ErrWrongKind)
			}
			require.Equal(t, before, server.MustDo(t, "DUMP", key))
			require.Equal(t, int64(-1), server.MustDo(t, "PTTL", key))
			require.Zero(t, inLine(t, server, name))
		})
	}
}

// P9: foreign keys in the places of the lines are found before anything is written, and stay as they are.
func TestAForeignLineIsErrWrongKindAndUntouched(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for _, part := range []string{"line", "readers", "lives"} {
		t.Run(part, func(t *testing.T) {
			t.Parallel()
			holder, mu := newLock(t, server, part), newLock(t, server, part)
			lease := must(t, holder, write)
			key := "sb:{" + part + "}:" + part
			server.MustDo(t, "SET", key, "mine")
			for _, take := range []side{write, read} {
				_, err := take(mu, t.Context())
				require.ErrorIs(t, err, signalbox.ErrWrongKind)
			}
			require.Equal(t, "mine", server.MustDo(t, "GET", key))
			server.MustDo(t, "DEL", key)
			require.NoError(t, lease.Unlock())
			awaitFree(t, server, part)
		})
	}
}

// P9: what others put into the key is no hold, and takes no lock from anybody.
func TestStrangeMembersOfTheKeyAreNoHolds(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := newLock(t, server, "a")
	lease := must(t, mu, write)
	server.MustDo(t, "ZADD", holderKey("a"), 1, "x", 2, "", -7, strings.Repeat("y", 60))
	require.ErrorIs(t, second(newLock(t, server, "a").TryRLock(t.Context())), signalbox.ErrHeld)
	n := 0
	for h, err := range mu.Holders(t.Context()) {
		require.NoError(t, err)
		require.Equal(t, lease.Token(), h.Token)
		n++
	}
	require.Equal(t, 1, n)
	require.NoError(t, lease.Unlock())
	require.NoError(t, must(t, newLock(t, server, "a"), write).Unlock())
}
