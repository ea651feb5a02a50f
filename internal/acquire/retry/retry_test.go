// SPDX-License-Identifier: Apache-2.0

package retry_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/acquire/queue"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

// scriptsDuring returns how often a script ran while do did.
func (f *fixture) scriptsDuring(do func()) int64 {
	f.Helper()
	before := f.server.CommandStats()["evalsha"].Calls
	do()
	return f.server.CommandStats()["evalsha"].Calls - before
}

// P6: a waiter elsewhere is woken by the message.
func TestTheLockIsHandedOffBetweenSessions(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	one, other := f.join(f.server), f.join(f.server)
	first := one.acquire(writes)
	_, err := other.Try(t.Context(), other.keys, writes)
	require.ErrorIs(t, err, errs.ErrHeld)
	waits := other.startAcquire(t.Context(), writes)
	f.awaitListeners(1)
	f.release(first)
	second := f.receiveHold(waits)
	require.Greater(t, second.Grant().Stamp, first.Grant().Stamp) // P3
	f.release(second)
	f.awaitFree()
}

// P7: writers of a session try one at a time, in their order: two scripts for each hand-off, however many
// wait.
func TestWritersOfASessionTryOneAtATimeInOrder(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u, other := f.join(f.server), f.join(f.server)
	first := other.acquire(writes)
	const waiters = 20
	var waits [waiters]<-chan outcome
	for n := range waits {
		waits[n] = u.startAcquire(t.Context(), writes)
	}
	f.awaitListeners(1)
	began := time.Now()
	scripts := f.scriptsDuring(func() {
		f.release(first)
		for n := range waits {
			a := f.receiveHold(waits[n])
			for _, later := range waits[n+1:] {
				require.Empty(t, later, "before its turn")
			}
			f.release(a)
		}
	})
	polls := 2 + 2*int64(time.Since(began)/time.Second)
	const early = waiters // the tries that were sent before the release, and executed before it
	require.LessOrEqual(t, scripts, 2*waiters+1+early+polls, "an acquire and a release each, and a poll now and then")
	f.awaitFree()
}

// P6: one message admits all readers, also those of one session, and readers do not wait for writers of
// their session.
func TestOneMessageAdmitsAllReaders(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u, other := f.join(f.server), f.join(f.server)
	first := other.acquire(writes)
	writer := u.startAcquire(t.Context(), writes)
	var waits [10]<-chan outcome
	for n := range waits {
		waits[n] = u.startAcquire(t.Context(), reads)
	}
	f.awaitListeners(1)
	f.server.MustDo(t, "EVAL", scripts.Load("redisson/rwlock-downgrade", 1).Source, 1, "a", first.Name(), "", "PUBLISH", channel)
	readers := make([]interface {
		Release(context.Context, wire.Stamp, time.Duration) (bool, error)
	}, len(waits))
	for n := range waits {
		readers[n] = f.receiveHold(waits[n])
	}
	require.Empty(t, writer)
	for _, r := range readers {
		_, err := r.Release(t.Context(), 0, lease)
		require.NoError(t, err)
	}
	f.release(first)
	f.release(f.receiveHold(writer))
	f.awaitFree()
}

// P4, P5: a try whose reply was lost is repeated under the same hold, which has the lock then.
func TestALostReplyIsFoundByTheNextTry(t *testing.T) {
	redistest.Slow(t, "a request of unknown outcome stays open for three seconds")
	t.Parallel()
	for name, request := range map[string]struct{ try bool }{"Wait": {false}, "Try": {true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			u := f.join(f.proxy)
			armed := f.proxy.Arm(redistest.Fault{Kind: redistest.CutAfterRequest})
			if request.try {
				_, err := u.Try(t.Context(), u.keys, writes)
				require.Error(t, err)
			} else {
				a := u.acquire(writes)
				fields, _ := f.server.MustDo(t, "HKEYS", "a").([]any)
				require.Contains(t, fields, a.Name()+":write")
				require.Len(t, fields, 2, "one hold, and the mode")
				f.release(a)
			}
			within(t, armed.Fired())
			f.awaitFree()
		})
	}
}

// P4: a waiter that gives up while its try is under way leaves nothing, even if the try arrives after it
// was undone.
func TestAWaiterThatGivesUpLeavesNothing(t *testing.T) {
	redistest.Slow(t, "a request of unknown outcome stays open for three seconds")
	t.Parallel()
	f := newFixture(t)
	u := f.join(f.proxy)
	// It has three seconds to arrive, which a machine that stalls can use up.
	f.await("a try that comes in time", func() bool { return u.tryArrivesLate() })
	f.awaitFree()
	f.await("that no copy can come", func() bool { _, attempts := u.Len(); return attempts == 0 })
}

// tryArrivesLate makes a try arrive after it was undone, and reports whether it had the lock then.
func (u *user) tryArrivesLate() bool {
	f := u.fixture
	f.Helper()
	var try atomic.Pointer[[]string]
	f.proxy.SetMatch(func(request []string) bool {
		return request[0] == "EVALSHA" && request[1] == scripts.Load("redisson/rwlock-acquire", 1).SHA1 && try.CompareAndSwap(nil, &request)
	})
	armed := f.proxy.Arm(redistest.Fault{Kind: redistest.CutBeforeRequest})
	before := f.server.CommandStats()["evalsha"].Calls // without the try, which is not executed
	_, err := u.Try(f.Context(), u.keys, writes)
	require.Error(f, err)
	within(f, armed.Fired())
	f.await("a release", func() bool { return f.server.CommandStats()["evalsha"].Calls > before })
	late := make([]any, len(*try.Load()))
	for n, word := range *try.Load() {
		late[n] = word
	}
	reply, _ := f.server.MustDo(f, late...).([]any)
	return reply[0] == int64(1)
}

// A waiter that gives up returns what it knows: that the lock is held.
func TestAWaiterThatGivesUpReturnsErrHeld(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	one, writer, reader := f.join(f.server), f.join(f.server), f.join(f.server)
	first := one.acquire(writes)
	ctx, cancel := context.WithCancel(t.Context())
	gone := []<-chan outcome{writer.startAcquire(ctx, writes), reader.startAcquire(ctx, reads)}
	next := writer.startAcquire(ctx, writes)
	f.awaitListeners(2) // by then both know that it is held
	cancel()
	for _, w := range gone {
		err := within(t, w).err
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, errs.ErrHeld)
	}
	require.ErrorIs(t, within(t, next).err, context.Canceled)
	f.release(first)
	f.awaitFree()
}

// P6: the turn of a waiter that gives up goes to the next.
func TestTheTurnOfAWaiterThatGivesUpGoesToTheNext(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	one, other := f.join(f.server), f.join(f.server)
	first := one.acquire(writes)
	ctx, cancel := context.WithCancel(t.Context())
	gone, next := other.startAcquire(ctx, writes), other.startAcquire(t.Context(), writes)
	f.awaitListeners(1)
	cancel()
	require.Error(t, within(t, gone).err)
	f.release(first)
	f.release(f.receiveHold(next))
}

// P6: without a message a poll finds the free lock, also without channels.
func TestAFreeLockIsFoundWithoutAMessage(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(*session.Settings){
		"Message": func(*session.Settings) {},
		"Poll":    func(s *session.Settings) { s.Polling = true },
	} {
		for side, request := range map[string]*queue.Request{"Reader": reads, "Writer": writes} {
			t.Run(name+side, func(t *testing.T) {
				t.Parallel()
				if name == "Message" {
					redistest.Slow(t, "a waiter that no message reaches polls after a second")
				}
				f := newFixture(t)
				one, other := f.join(f.server), f.join(f.server, set)
				first := one.acquire(writes)
				waits := other.startAcquire(t.Context(), request)
				tries := f.server.CommandStats()["evalsha"].Calls
				f.await("a try", func() bool { return f.server.CommandStats()["evalsha"].Calls > tries })
				f.server.MustDo(t, "DEL", "a")
				f.release(f.receiveHold(waits))
				wasHeld, err := first.Release(t.Context(), 0, lease)
				require.NoError(t, err)
				require.False(t, wasHeld)
			})
		}
	}
}

// P7: Close wakes waiters for the message, and waiters for their turn.
func TestCloseRefusesAllWaiters(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	one, other := f.join(f.server), f.join(f.server)
	first := one.acquire(writes)
	waits := []<-chan outcome{other.startAcquire(t.Context(), writes), other.startAcquire(t.Context(), writes), other.startAcquire(t.Context(), reads)}
	f.awaitListeners(1)
	require.NoError(t, other.session.Close(t.Context()))
	for _, w := range waits {
		require.ErrorIs(t, within(t, w).err, errs.ErrClosed)
	}
	f.release(first)
}

// A key that is no lock of the kind is reported at once.
func TestAnotherKindIsErrWrongKind(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u := f.join(f.server)
	f.server.MustDo(t, "HSET", "a", "another:1", "1")
	require.ErrorIs(t, within(t, u.startAcquire(t.Context(), writes)).err, errs.ErrWrongKind)
	_, err := u.Try(t.Context(), u.keys, reads)
	require.ErrorIs(t, err, errs.ErrWrongKind)
}

// P5: the script that replaces an attempt by another is repeated until it has a reply.
func TestASwapIsRepeatedUntilItHasAReply(t *testing.T) {
	redistest.Slow(t, "a request of unknown outcome stays open for three seconds")
	t.Parallel()
	f := newFixture(t)
	u := f.join(f.proxy)
	first := u.acquire(reads)
	armed := f.proxy.Arm(redistest.Fault{Kind: redistest.CutAfterRequest})
	// Redisson has no lock that is divided: this script acquires a lock beside the old one, which the test
	// removes.
	second, err := first.Swap(t.Context(), scripts.Load("redisson/rwlock-acquire", 1), reads)
	require.NoError(t, err)
	within(t, armed.Fired())
	f.server.MustDo(t, "HDEL", "a", first.Name())
	require.Equal(t, int64(2), f.server.MustDo(t, "HLEN", "a"), "one hold, and the mode")
	f.release(second)
	f.await("that no copy can come", func() bool { _, attempts := u.Len(); return attempts == 0 })
}
