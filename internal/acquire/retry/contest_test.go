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

// sent returns how often a script ran while do did.
func (p *retriedRequest) sent(do func()) int64 {
	p.Helper()
	before := p.server.CommandStats()["evalsha"].Calls
	do()
	return p.server.CommandStats()["evalsha"].Calls - before
}

// P6: a waiter elsewhere is woken by the message.
func TestTheLockIsHandedOffBetweenSessions(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	one, other := p.join(p.server), p.join(p.server)
	first := one.must(writes)
	_, err := other.queue.Try(t.Context(), writes)
	require.ErrorIs(t, err, errs.ErrHeld)
	waits := other.later(t.Context(), writes)
	p.heardBy(1)
	p.gives(first)
	second := p.has(waits)
	require.Greater(t, second.Grant().Stamp, first.Grant().Stamp) // P3
	p.gives(second)
	p.free()
}

// P7: writers of a session try one at a time, in their order: two scripts for each hand-off, however many
// wait.
func TestWritersOfASessionTryOneAtATimeInOrder(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	u, other := p.join(p.server), p.join(p.server)
	first := other.must(writes)
	const waiters = 20
	var waits [waiters]<-chan tryOutcome
	for n := range waits {
		waits[n] = u.later(t.Context(), writes)
	}
	p.heardBy(1)
	began := time.Now()
	scripts := p.sent(func() {
		p.gives(first)
		for n := range waits {
			a := p.has(waits[n])
			for _, later := range waits[n+1:] {
				require.Empty(t, later, "before its turn")
			}
			p.gives(a)
		}
	})
	looks := 2 + 2*int64(time.Since(began)/time.Second)
	const early = waiters // those whose turn came before the release was sent, and that asked before it was executed
	require.LessOrEqual(t, scripts, 2*waiters+1+early+looks, "an acquire and a release each, and a look now and then")
	p.free()
}

// P6: one message admits all readers, also those of one session, and readers do not wait for writers of
// their session.
func TestOneMessageAdmitsAllReaders(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	u, other := p.join(p.server), p.join(p.server)
	first := other.must(writes)
	writer := u.later(t.Context(), writes)
	var waits [10]<-chan tryOutcome
	for n := range waits {
		waits[n] = u.later(t.Context(), reads)
	}
	p.heardBy(1)
	p.server.MustDo(t, "EVAL", scripts.RedissonRWDowngrade.Source, 1, "a", first.Name(), "", "PUBLISH", channel)
	readers := make([]interface {
		Release(context.Context, wire.Stamp, time.Duration) (bool, error)
	}, len(waits))
	for n := range waits {
		readers[n] = p.has(waits[n])
	}
	require.Empty(t, writer)
	for _, r := range readers {
		_, err := r.Release(t.Context(), 0, lease)
		require.NoError(t, err)
	}
	p.gives(first)
	p.gives(p.has(writer))
	p.free()
}

// P4, P5: a try whose reply was lost is repeated under the same hold, which has the lock then.
func TestALostReplyIsFoundByTheNextTry(t *testing.T) {
	redistest.Slow(t, "a request of unknown outcome stays open for three seconds")
	t.Parallel()
	for name, wish := range map[string]struct{ try bool }{"Wait": {false}, "Try": {true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			u := p.join(p.proxy)
			armed := p.proxy.Arm(redistest.Fault{Kind: redistest.CutAfterRequest})
			if wish.try {
				_, err := u.queue.Try(t.Context(), writes)
				require.Error(t, err)
			} else {
				a := u.must(writes)
				fields, _ := p.server.MustDo(t, "HKEYS", "a").([]any)
				require.Contains(t, fields, a.Name()+":write")
				require.Len(t, fields, 2, "one hold, and the mode")
				p.gives(a)
			}
			within(t, armed.Fired())
			p.free()
		})
	}
}

// P4: a waiter that gives up while its try is under way leaves nothing, even if the try arrives after it
// was undone.
func TestAWaiterThatGivesUpLeavesNothing(t *testing.T) {
	redistest.Slow(t, "a request of unknown outcome stays open for three seconds")
	t.Parallel()
	p := newPlace(t)
	u := p.join(p.proxy)
	// It has three seconds to arrive, which a machine that stalls can use up.
	p.await("a try that comes in time", func() bool { return u.triesLate() })
	p.free()
	p.await("that no copy can come", func() bool { _, attempts := u.Len(); return attempts == 0 })
}

// triesLate makes a try arrive after it was undone, and reports whether it had the lock then.
func (u *user) triesLate() bool {
	p := u.place
	p.Helper()
	var try atomic.Pointer[[]string]
	p.proxy.SetMatch(func(request []string) bool {
		return request[0] == "EVALSHA" && request[1] == scripts.RedissonRWAcquire.SHA1 && try.CompareAndSwap(nil, &request)
	})
	armed := p.proxy.Arm(redistest.Fault{Kind: redistest.CutBeforeRequest})
	before := p.server.CommandStats()["evalsha"].Calls // without the try, which is not executed
	_, err := u.queue.Try(p.Context(), writes)
	require.Error(p, err)
	within(p, armed.Fired())
	p.await("a release", func() bool { return p.server.CommandStats()["evalsha"].Calls > before })
	late := make([]any, len(*try.Load()))
	for n, word := range *try.Load() {
		late[n] = word
	}
	reply, _ := p.server.MustDo(p, late...).([]any)
	return reply[0] == int64(1)
}

// A waiter that gives up returns what it knows: that the lock is held.
func TestAWaiterThatGivesUpReturnsErrHeld(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	one, writer, reader := p.join(p.server), p.join(p.server), p.join(p.server)
	first := one.must(writes)
	ctx, cancel := context.WithCancel(t.Context())
	gone := []<-chan tryOutcome{writer.later(ctx, writes), reader.later(ctx, reads)}
	behind := writer.later(ctx, writes)
	p.heardBy(2) // by then both know that it is held
	cancel()
	for _, w := range gone {
		err := within(t, w).err
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, errs.ErrHeld)
	}
	require.ErrorIs(t, within(t, behind).err, context.Canceled)
	p.gives(first)
	p.free()
}

// P6: the turn of a waiter that gives up goes to the next.
func TestTheTurnOfAWaiterThatGivesUpGoesToTheNext(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	one, other := p.join(p.server), p.join(p.server)
	first := one.must(writes)
	ctx, cancel := context.WithCancel(t.Context())
	gone, next := other.later(ctx, writes), other.later(t.Context(), writes)
	p.heardBy(1)
	cancel()
	require.Error(t, within(t, gone).err)
	p.gives(first)
	p.gives(p.has(next))
}

// P6: without a message a poll finds the free lock, also without channels.
func TestAFreeLockIsFoundWithoutAMessage(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(*session.Settings){
		"Look": func(*session.Settings) {},
		"Poll": func(s *session.Settings) { s.Polling = true },
	} {
		for side, wish := range map[string]*queue.Request{"Reader": reads, "Writer": writes} {
			t.Run(name+side, func(t *testing.T) {
				t.Parallel()
				if name == "Look" {
					redistest.Slow(t, "a waiter that no message reaches polls after a second")
				}
				p := newPlace(t)
				one, other := p.join(p.server), p.join(p.server, set)
				first := one.must(writes)
				waits := other.later(t.Context(), wish)
				tries := p.server.CommandStats()["evalsha"].Calls
				p.await("a try", func() bool { return p.server.CommandStats()["evalsha"].Calls > tries })
				p.server.MustDo(t, "DEL", "a")
				p.gives(p.has(waits))
				had, err := first.Release(t.Context(), 0, lease)
				require.NoError(t, err)
				require.False(t, had)
			})
		}
	}
}

// P7: Close wakes waiters for the message, and waiters for their turn.
func TestCloseRefusesAllWaiters(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	one, other := p.join(p.server), p.join(p.server)
	first := one.must(writes)
	waits := []<-chan tryOutcome{other.later(t.Context(), writes), other.later(t.Context(), writes), other.later(t.Context(), reads)}
	p.heardBy(1)
	require.NoError(t, other.session.Close(t.Context()))
	for _, w := range waits {
		require.ErrorIs(t, within(t, w).err, errs.ErrClosed)
	}
	p.gives(first)
}

// A key that is no lock of the kind is reported at once.
func TestAnotherKindIsErrWrongKind(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	u := p.join(p.server)
	p.server.MustDo(t, "HSET", "a", "somebody:1", "1")
	require.ErrorIs(t, within(t, u.later(t.Context(), writes)).err, errs.ErrWrongKind)
	_, err := u.queue.Try(t.Context(), reads)
	require.ErrorIs(t, err, errs.ErrWrongKind)
}

// P5: the script that replaces an attempt by another is repeated until it has a reply.
func TestASwapIsRepeatedUntilItHasAReply(t *testing.T) {
	redistest.Slow(t, "a request of unknown outcome stays open for three seconds")
	t.Parallel()
	p := newPlace(t)
	u := p.join(p.proxy)
	first := u.must(reads)
	armed := p.proxy.Arm(redistest.Fault{Kind: redistest.CutAfterRequest})
	// Redisson has no lock that is divided: this script acquires a lock beside the old one, which the test
	// removes.
	second, err := first.Swap(t.Context(), scripts.RedissonRWAcquire, reads)
	require.NoError(t, err)
	within(t, armed.Fired())
	p.server.MustDo(t, "HDEL", "a", first.Name())
	require.Equal(t, int64(2), p.server.MustDo(t, "HLEN", "a"), "one hold, and the mode")
	p.gives(second)
	p.await("that no copy can come", func() bool { _, attempts := u.Len(); return attempts == 0 })
}
