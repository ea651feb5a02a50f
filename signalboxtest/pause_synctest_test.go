// SPDX-License-Identifier: Apache-2.0

package signalboxtest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/signalboxtest"
)

// A pause that is shorter than what is left of the lease loses nothing.
func TestAShortPauseLosesNothing(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T) {
		kit := signalboxtest.New(t)
		s := kit.Session()
		lease, err := reentrant.New(s, "a").Lock(t.Context())
		require.NoError(t, err)
		kit.Pause(s)
		kit.Pause(s)
		require.True(t, kit.HeldBy("a", s))
		kit.Resume(s)
		kit.Resume(s)
		require.NoError(t, lease.Err())
		require.NoError(t, lease.Unlock())
		require.False(t, kit.IsHeld("a"))
	})
}

// Calls and messages wait for the end of a pause: a waiter that was granted the lock in it has the lock then.
func TestMessagesWaitForTheEndOfAPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		kit := signalboxtest.New(t)
		waiter := kit.Session()
		other := kit.Hold("a")
		got := make(chan signalbox.Lease, 2)
		lock := func(name string) {
			lease, err := reentrant.New(waiter, name).Lock(t.Context())
			if err == nil {
				got <- lease
			}
		}
		go lock("a")
		kit.Advance(100 * time.Millisecond)
		kit.Pause(waiter)
		other.Release()
		go lock("b")
		kit.Advance(time.Second)
		require.Empty(t, got)
		require.True(t, kit.HeldBy("a", waiter), "it does not know yet")
		require.False(t, kit.IsHeld("b"))
		kit.Resume(waiter)
		ended := time.Now()
		for range 2 {
			require.NoError(t, (<-got).Unlock())
		}
		require.LessOrEqual(t, time.Since(ended), 200*time.Millisecond)
	})
}
