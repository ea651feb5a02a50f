// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// fencingCounter is the key that counts the tokens of the lock "a" as Redisson's RFencedLock does.
const fencingCounter = "redisson_lock_token:{a}"

// layouts are the options of a lock in each layout, and how many scripts it takes to hand it to
// another goroutine of the session.
var layouts = map[string]struct {
	options []signalbox.LockOption
	scripts int64
}{
	"Native":   {nil, 0},
	"Redisson": {[]signalbox.LockOption{signalbox.WithLayout(signalbox.Redisson())}, 0},
	"Fenced":   {[]signalbox.LockOption{signalbox.WithLayout(signalbox.Redisson(signalbox.Fenced))}, 2},
}

// P3, P7: within 20 ms of the grant the lock goes from goroutine to goroutine of a session in the
// order of arrival, with tokens that rise, and without the server; a fenced lock with a release and
// an acquire each, which counts the token. Others see the same process as the holder.
func TestLockIsHandedOverInOrderWithoutTheServer(t *testing.T) {
	t.Parallel()
	const goroutines = 5
	for name, layout := range layouts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(w *fixture) {
				s, _, closeAll := w.session(w.T, signalbox.WithPolling()) // it has no channel of its own
				defer closeAll()
				mu := reentrant.New(s, "a", layout.options...)
				lease := atOnce(w.T, mu)
				require.NoError(w, lease.Unlock()) // the server knows the scripts of both from here on
				before := w.scripts.Load()
				lease = atOnce(w.T, mu)
				first := lease.Token()
				var waiting []<-chan locktest.Result[signalbox.Lease]
				for range goroutines {
					waiting = append(waiting, locktest.Queue(w.Context(), w, mu.Lock))
				}
				granted := time.Now()
				for i, next := range waiting {
					last := lease.Token()
					require.NoError(w, lease.Unlock())
					lease = locktest.MustHave(w, next)
					require.Greater(w, lease.Token(), last)
					for _, later := range waiting[i+1:] {
						require.Empty(w, later, "out of order")
					}
				}
				passed := w.scripts.Load() - before - 1 // the acquire
				require.Equal(w, granted, time.Now())
				holder, err := mu.Holder(w.Context())
				require.NoError(w, err)
				require.Equal(w, s.ID(), holder.Session)
				if name == "Native" {
					require.Equal(w, first, holder.Token, "the first of those that were reserved")
				}
				require.NoError(w, lease.Unlock())
				if layout.scripts == 0 {
					require.Zero(w, passed)
					return
				}
				// The first one of all is the script's text, which the server had not seen before.
				require.InDelta(w, goroutines*layout.scripts, passed, 1)
				count, err := w.redis.Get(fencingCounter)
				require.NoError(w, err)
				require.Equal(w, strconv.FormatUint(lease.Token(), 10), count)
				require.Equal(w, uint64(goroutines)+2, lease.Token(), "there is no gap")
			})
		})
	}
}

// P6: after that the lock is released although another goroutine of the session waits, since in Redisson's
// layout no process knows of waiters elsewhere.
func TestLockInRedissonsLayoutIsReleasedAfterTheBudget(t *testing.T) {
	t.Parallel()
	for name, layout := range layouts {
		if name == "Native" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(w *fixture) {
				users, closeAll := w.queueUsers(w.T, 2, time.Millisecond)
				defer closeAll()
				mu := reentrant.New(users[0].Session, "a", layout.options...)
				other := reentrant.New(users[1].Session, "a", layout.options...)
				lease := atOnce(w.T, mu)
				first, err := w.redis.HKeys("a")
				require.NoError(w, err)
				here, elsewhere := queuedAndListening(w.Context(), mu), queuedAndListening(w.Context(), other)
				require.NoError(w, lease.Unlock())
				last := lease.Token()
				for range 2 {
					var got lockResult
					select {
					case got = <-here:
					case got = <-elsewhere:
					}
					require.NoError(w, got.err)
					require.Greater(w, got.lease.Token(), last)
					last = got.lease.Token()
					holds, err := w.redis.HKeys("a")
					require.NoError(w, err)
					require.NotEqual(w, first, holds, "the hold was handed over")
					require.NoError(w, got.lease.Unlock())
				}
			})
		})
	}
}

// P3: tokens that are reserved for passing the lock on run at most 100 ms ahead of the server's
// clock, however often the lock is taken in no time.
func TestReservedTokensStayNearTheClock(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *fixture) {
		s, _, closeAll := w.session(w.T)
		defer closeAll()
		mu := reentrant.New(s, "a")
		var last uint64
		for range 300 {
			lease := atOnce(w.T, mu)
			require.Greater(w, lease.Token(), last)
			last = lease.Token()
			require.NoError(w, lease.Unlock())
		}
		require.LessOrEqual(w, last, ticks(time.Now())+400_000)
		value, err := w.redis.Get(locktest.Key("a"))
		require.NoError(w, err)
		floor, err := strconv.ParseInt(value[4:], 10, 64)
		require.NoError(w, err)
		require.LessOrEqual(w, ticks(time.UnixMicro(floor)), ticks(time.Now())+400_000)
	})
}

// ticks returns a time in the unit of tokens.
func ticks(at time.Time) uint64 {
	return 4 * uint64(at.Sub(time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)).Microseconds())
}
