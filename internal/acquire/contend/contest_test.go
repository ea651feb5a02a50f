// SPDX-License-Identifier: Apache-2.0

package contend_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/acquire/queue"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

// sent returns how often a script ran while do did.
func (p *place) sent(do func()) int64 {
	p.Helper()
	before := p.server.CommandStats()["evalsha"].Calls
	do()
	return p.server.CommandStats()["evalsha"].Calls - before
}

// P6: a waiter elsewhere is woken by the message.
func TestTheLockIsHandedOnBetweenSessions(t *testing.T) {
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

// P7: those of a session who want it alone try one at a time, in their order: two scripts a hand-off, however many wait.
func TestThoseOfASessionTryOneAtATimeInTheirOrder(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	u, other := p.join(p.server), p.join(p.server)
	first := other.must(writes)
	const waiters = 20
	var waits [waiters]<-chan outcome
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
	const early = waiters // those who had the turn before the release was sent, and asked before it was executed
	require.LessOrEqual(t, scripts, 2*waiters+1+early+looks, "an acquire and a release each, and a look now and then")
	p.free()
}

// P6: one message lets in all who may come in, also of one session, and readers do not wait for writers of their session.
func TestOneMessageLetsInAllReaders(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	u, other := p.join(p.server), p.join(p.server)
	first := other.must(writes)
	writer := u.later(t.Context(), writes)
	var waits [10]<-chan outcome
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

// P4, P5: a try whose answer was lost is repeated under the same hold, which has the lock then.
func TestALostAnswerIsFoundByTheNextTry(t *testing.T) {
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

// P4: who gives up while its try is under way leaves nothing, though the try comes when it was taken back already.
func TestWhoGivesUpLeavesNothing(t *testing.T) {
	redistest.Slow(t, "a request of unknown outcome stays open for three seconds")
	t.Parallel()
	p := newPlace(t)
	u := p.join(p.proxy)
	// It has three seconds to come in, which a machine that stalls can use up.
	p.await("a try that comes in time", func() bool { return u.triesLate() })
	p.free()
	p.await("that no copy can come", func() bool { _, attempts := u.Len(); return attempts == 0 })
}

// triesLate lets a try come in when it was taken back, and reports whether it had the lock then.
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
	answer, _ := p.server.MustDo(p, late...).([]any)
	return answer[0] == int64(1)
}

// Who waits is told what is known: that the lock is held.
func TestWhoGivesUpIsToldThatItIsHeld(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	one, writer, reader := p.join(p.server), p.join(p.server), p.join(p.server)
	first := one.must(writes)
	ctx, cancel := context.WithCancel(t.Context())
	told := []<-chan outcome{writer.later(ctx, writes), reader.later(ctx, reads)}
	behind := writer.later(ctx, writes)
	p.heardBy(2) // which is where they were told
	cancel()
	for _, w := range told {
		err := within(t, w).err
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, errs.ErrHeld)
	}
	require.ErrorIs(t, within(t, behind).err, context.Canceled)
	p.gives(first)
	p.free()
}

// P6: the turn of one who gives up is the next one's.
func TestTheTurnOfOneWhoGivesUpIsTheNextOnes(t *testing.T) {
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

// P6: where no message comes a look finds it; and without channels polls do.
func TestALockThatNobodyToldOfIsFound(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(*session.Settings){
		"Look": func(*session.Settings) {},
		"Poll": func(s *session.Settings) { s.Polling = true },
	} {
		for side, wish := range map[string]*queue.Wish{"Reader": reads, "Writer": writes} {
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

// P7: Close wakes who waits for the message, and who waits for its turn.
func TestCloseSendsAllAway(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	one, other := p.join(p.server), p.join(p.server)
	first := one.must(writes)
	waits := []<-chan outcome{other.later(t.Context(), writes), other.later(t.Context(), writes), other.later(t.Context(), reads)}
	p.heardBy(1)
	require.NoError(t, other.session.Close(t.Context()))
	for _, w := range waits {
		require.ErrorIs(t, within(t, w).err, errs.ErrClosed)
	}
	p.gives(first)
}

// What is no lock of the kind is told at once.
func TestAnotherKindIsTold(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	u := p.join(p.server)
	p.server.MustDo(t, "HSET", "a", "somebody:1", "1")
	require.ErrorIs(t, within(t, u.later(t.Context(), writes)).err, errs.ErrWrongKind)
	_, err := u.queue.Try(t.Context(), reads)
	require.ErrorIs(t, err, errs.ErrWrongKind)
}

// P5: the script that puts an attempt in the place of another is repeated until it is answered.
func TestASwapIsRepeatedUntilItIsAnswered(t *testing.T) {
	redistest.Slow(t, "a request of unknown outcome stays open for three seconds")
	t.Parallel()
	p := newPlace(t)
	u := p.join(p.proxy)
	first := u.must(reads)
	armed := p.proxy.Arm(redistest.Fault{Kind: redistest.CutAfterRequest})
	// Redisson has no lock that is divided: this script takes a lock beside the old one, which goes by hand.
	second, err := first.Swap(t.Context(), scripts.RedissonRWAcquire, reads)
	require.NoError(t, err)
	within(t, armed.Fired())
	p.server.MustDo(t, "HDEL", "a", first.Name())
	require.Equal(t, int64(2), p.server.MustDo(t, "HLEN", "a"), "one hold, and the mode")
	p.gives(second)
	p.await("that no copy can come", func() bool { _, attempts := u.Len(); return attempts == 0 })
}
