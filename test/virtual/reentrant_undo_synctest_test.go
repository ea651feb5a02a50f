// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/redisson"
	"github.com/signalbox-go/signalbox/reentrant"
)

// P4, P5: a try that gives up at any instant, or whose reply never comes, is taken back as soon as
// the server learns of it: a second later the lock is free, long before the lease of the try would
// end.
func TestTryThatGivesUpAtAnyInstantLeavesNothing(t *testing.T) {
	t.Parallel()
	const latency, instants = 7 * time.Millisecond, 20
	for name, options := range map[string][]signalbox.LockOption{"Native": nil, "Redisson": {signalbox.WithLayout(redisson.Layout())}} {
		for _, lost := range []bool{false, true} {
			t.Run(fmt.Sprint(name, "/", lost), func(t *testing.T) {
				t.Parallel()
				bubble(t, func(f *fixture) {
					var tries sync.WaitGroup
					for i := range instants {
						s, link, closeAll := f.session(f.T)
						defer closeAll()
						require.NoError(f, locked(f.Context(), s))
						link.latency.Store(int64(latency))
						mu := reentrant.New(s, fmt.Sprint("try/", i), options...)
						tries.Go(func() {
							ctx, cancel := context.WithTimeout(f.Context(), time.Duration(i)*time.Millisecond)
							defer cancel()
							if lost {
								link.swallowsReplies.Store(true)
								time.AfterFunc(time.Duration(2*i)*time.Millisecond, link.heal)
							}
							if lease, err := mu.TryLock(ctx); err == nil {
								_ = lease.Unlock()
							}
						})
					}
					tries.Wait()
					time.Sleep(time.Second)
					other, _, closeOther := f.session(f.T)
					defer closeOther()
					for i := range instants {
						lease, err := reentrant.New(other, fmt.Sprint("try/", i), options...).TryLock(f.Context())
						require.NoError(f, err, "gave up after %d ms", i)
						require.NoError(f, lease.Unlock())
					}
				})
			})
		}
	}
}

// P10: a release that is denied is repeated for as long as the hold lasts: the lock is free soon after the right is given.
func TestDeniedReleaseIsRepeatedForAsLongAsTheLeaseLasts(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		first, _, closeFirst := f.session(f.T)
		defer closeFirst()
		second, _, closeSecond := f.session(f.T)
		defer closeSecond()
		held := atOnce(f.T, reentrant.New(first, "a"))
		next := queuedAndListening(f.Context(), reentrant.New(second, "a", signalbox.WithRenewedLease(10*time.Minute)))
		require.NoError(f, held.Unlock())
		lease := (<-next).lease
		time.Sleep(4 * time.Minute) // in which it is renewed
		var tries atomic.Int64
		f.redis.Server().SetPreHook(func(peer *server.Peer, command string, _ ...string) bool {
			if strings.HasPrefix(command, "EVAL") {
				tries.Add(1)
			}
			peer.WriteError("NOPERM this user has no permissions to run the 'evalsha' command")
			return true
		})
		require.ErrorIs(f, lease.Unlock(), signalbox.ErrDenied)
		time.Sleep(time.Minute)
		require.InDelta(f, 60, tries.Load(), 10, "once a second, after a few that come sooner")
		f.redis.SetError("")
		time.Sleep(2 * time.Second)
		again, err := reentrant.New(first, "a").TryLock(f.Context())
		require.NoError(f, err)
		require.NoError(f, again.Unlock())
	})
}
