// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/rwlock"
)

// queued calls Lock on another goroutine, and returns when that waits.
func queued(ctx context.Context, lock locktest.Lock) <-chan lockResult {
	got := make(chan lockResult, 1)
	go func() {
		lease, err := lock.Lock(ctx)
		got <- lockResult{lease, err, time.Now()}
	}()
	synctest.Wait()
	return got
}

// P7: readers of a session enter beside each other without a command, but for one each 20 ms that asks whether a writer waits;
// and all but the last one leave without a command.
func TestRWReadersOfASessionAskTheServerEvery20ms(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		s := f.user(signalbox.WithPolling()).Session // which sends nothing by itself
		lock, reader := rwlock.New(s, "a"), locktest.Reader().New(s, "a")
		leases := []signalbox.Lease{atOnce(f.T, reader), atOnce(f.T, reader)}
		time.Sleep(25 * time.Millisecond)
		leases = append(leases, atOnce(f.T, reader)) // teaches the server the script that asks
		before := f.scripts.Load()
		for n := range 200 {
			enter := []func(context.Context) (signalbox.Lease, error){lock.RLock, lock.TryRLock}[n%2]
			lease, err := enter(f.Context())
			require.NoError(f, err)
			require.Equal(f, leases[0].Token(), lease.Token())
			leases = append(leases, lease)
			require.EqualValues(f, n/20, f.scripts.Load()-before, "after %d ms", n)
			time.Sleep(time.Millisecond)
		}
		for _, lease := range leases[1:] {
			require.NoError(f, lease.Unlock())
		}
		require.EqualValues(f, 9, f.scripts.Load()-before)
		require.NoError(f, leases[0].Unlock())
		require.NoError(f, atOnce(f.T, lock).Unlock())
	})
}
