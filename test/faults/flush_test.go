// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// P1, P10: a server that forgets its scripts all the time causes no error.
func TestForgottenScriptsAreSentAgain(t *testing.T) {
	t.Parallel()
	const users, times = 8, 50
	f := newFixture(t)
	client := f.server.Client(t, nil)
	done, flushes := make(chan struct{}), 0
	var flusher sync.WaitGroup
	flusher.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			if err := client.Do(t.Context(), client.B().ScriptFlush().Build()).Error(); err != nil {
				t.Error(err)
				return
			}
			flushes++
		}
	})
	// Until then nothing is shown: how often scripts are forgotten in the midst of it is up to the machine.
	forgotten := func() bool { return f.server.CommandStats()["eval"].Calls > users*times/10 }
	patience := locktest.Context(t)
	var inside [2]atomic.Int32
	locktest.Together(t, users, func(i int) error {
		// which is not handed over here
		lock := reentrant.New([]*signalbox.Session{f.holder, f.other}[i%2], fmt.Sprint("flush/", i/2%2), signalbox.WithFixedLease(redistest.Patience))
		for n := 0; n < times || !forgotten() && patience.Err() == nil; n++ {
			lease, err := lock.Lock(locktest.Context(t))
			if err != nil {
				return err
			}
			if n := inside[i/2%2].Add(1); n != 1 {
				return fmt.Errorf("%d holders at once", n)
			}
			inside[i/2%2].Add(-1)
			if err := locktest.IgnoreUnconfirmed(lease.Unlock()); err != nil {
				return err
			}
		}
		return nil
	})
	close(done)
	flusher.Wait()
	t.Logf("%d flushes, %d scripts sent as text", flushes, f.server.CommandStats()["eval"].Calls)
	require.True(t, forgotten(), "scripts were seldom forgotten")
	f.view.NoImmortals(t)
}
