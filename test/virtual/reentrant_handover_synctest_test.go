// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/redisson"
	"github.com/signalbox-go/signalbox/reentrant"
)

// P3, P7, order: within 20 ms of the grant a lock goes from goroutine to goroutine of a session in the order of arrival, with tokens that
// rise, and without the server; a fenced lock with a release and an acquire each, which counts the token. Others see the same
// process as the holder.
func TestLockIsHandedOverInOrderWithoutTheServer(t *testing.T) {
	t.Parallel()
	const goroutines = 5
	for name, layout := range map[string]struct {
		options []signalbox.LockOption
		scripts int64 // of each hand-over
	}{
		"Native":   {nil, 0},
		"Redisson": {[]signalbox.LockOption{signalbox.WithLayout(redisson.Layout())}, 0},
		"Fenced":   {[]signalbox.LockOption{signalbox.WithLayout(redisson.Layout(redisson.Fenced))}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(f *fixture) {
				s, _, closeAll := f.session(f.T, signalbox.WithPolling()) // it has no channel of its own
				defer closeAll()
				mu := reentrant.New(s, "a", layout.options...)
				lease := atOnce(f.T, mu)
				require.NoError(f, lease.Unlock()) // the server knows the scripts of both from here on
				before := f.scripts.Load()
				lease = atOnce(f.T, mu)
				first := lease.Token()
				var waiting []<-chan locktest.Result[signalbox.Lease]
				for range goroutines {
					waiting = append(waiting, locktest.Queue(f.Context(), f, mu.Lock))
				}
				granted := time.Now()
				for i, next := range waiting {
					last := lease.Token()
					require.NoError(f, lease.Unlock())
					lease = locktest.MustHave(f, next)
					require.Greater(f, lease.Token(), last)
					for _, later := range waiting[i+1:] {
						require.Empty(f, later, "out of order")
					}
				}
				passed := f.scripts.Load() - before - 1 // the acquire
				require.Equal(f, granted, time.Now())
				holder, err := mu.Holder(f.Context())
				require.NoError(f, err)
				require.Equal(f, s.ID(), holder.Session)
				require.True(f, name != "Native" || holder.Token == first, "the first of those that were reserved")
				require.NoError(f, lease.Unlock())
				if layout.scripts == 0 {
					require.Zero(f, passed)
					return
				}
				// The first one of all is the script's text, which the server had not seen before.
				require.InDelta(f, goroutines*layout.scripts, passed, 1)
				count, err := f.redis.Get("redisson_lock_token:{a}")
				require.NoError(f, err)
				require.Equal(f, strconv.FormatUint(lease.Token(), 10), count)
				require.Equal(f, uint64(goroutines)+2, lease.Token(), "there is no gap")
			})
		})
	}
}
