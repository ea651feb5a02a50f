// SPDX-License-Identifier: Apache-2.0

package rwlock_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/rwlock"
	"github.com/signalbox-go/signalbox/scripts"
)

// led --refused--> the leader's error; the next leads, and gets an error of its own.
func TestARefusalReachesEveryReader(t *testing.T) {
	t.Parallel()
	f := sharedFixture(t)
	proxy := f.proxy()
	mu := f.lockAt(proxy)
	require.NoError(t, must(t, mu, read).Unlock())
	f.server.MustDo(t, "DEL", f.key())
	f.server.MustDo(t, "RPUSH", f.key(), "mine")
	goOn := make(chan struct{})
	arrived := make(chan struct{}, 100)
	proxy.SetMatch(locktest.RunsScript(scripts.RWLockEnter))
	proxy.OnRequest(func(int, []string) { arrived <- struct{}{}; <-goOn })
	waiting := []<-chan result{later(t.Context(), mu, read)}
	redistest.Receive(t, "the request", arrived)
	for n := range 5 {
		waiting = append(waiting, follow(t.Context(), t, mu, n+1))
	}
	close(goOn)
	for _, w := range waiting {
		require.ErrorIs(t, locktest.MustFail(t, w), signalbox.ErrWrongKind)
	}
	redistest.Await(t, "nothing in use", func() bool { return mu.InUse() == 0 })
	f.server.MustDo(t, "DEL", f.key()) // else Close waits a second for withdrawals that are refused
}

// P6: Close refuses all waiting readers, the leader too, and waits for the readers that hold the lock.
func TestCloseRefusesAllReaders(t *testing.T) {
	t.Parallel()
	f := sharedFixture(t)
	s := f.session(signalbox.WithCloseGrace(redistest.Patience))
	mu := rwlock.New(s, f.name)
	old := must(t, mu, read)
	writer := f.queue(t.Context(), f.lock(), write, 1)
	aged()
	waiting := []<-chan result{f.queue(t.Context(), mu, read, 2)}
	for n := range 5 {
		waiting = append(waiting, follow(t.Context(), t, mu, n+2))
	}
	closed := make(chan error, 1)
	go func() { closed <- s.Close(t.Context()) }()
	for _, w := range waiting {
		require.ErrorIs(t, locktest.MustFail(t, w), signalbox.ErrClosed)
	}
	require.False(t, locktest.IsClosed(closed))
	require.NoError(t, old.Err())
	require.ErrorIs(t, second(mu.RLock(t.Context())), signalbox.ErrClosed, "beside a reader, too")
	require.NoError(t, old.Unlock())
	require.NoError(t, redistest.Receive(t, "the end of Close", closed))
	require.Zero(t, mu.InUse())
	require.NoError(t, locktest.MustHave(t, writer).Unlock())
}

// open -> empty: a reader that joins as the last one leaves has the lock, of that hold or of another.
func TestAReaderThatComesAsTheLastLeavesHasTheLock(t *testing.T) {
	t.Parallel()
	f := sharedFixture(t)
	mu := f.lock()
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			for range 100 {
				lease, err := mu.RLock(t.Context())
				if err == nil {
					err = lease.Err()
				}
				if err == nil {
					err = lease.Unlock()
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	require.Zero(t, mu.InUse())
	require.False(t, f.isHeld())
}

// A share request without a reply admits no reader, and keeps none out.
func TestALostShareRequestKeepsNoReaderOut(t *testing.T) {
	t.Parallel()
	for _, kind := range []redistest.FaultKind{redistest.CutBeforeRequest, redistest.CutAfterRequest} {
		for name, take := range map[string]lockMethod{"RLock": read, "TryRLock": tryRead} {
			t.Run(name+kind.String(), func(t *testing.T) {
				t.Parallel()
				f := sharedFixture(t)
				proxy := f.proxy()
				mu := f.lockAt(proxy)
				old := must(t, mu, read)
				aged()
				proxy.SetMatch(locktest.RunsScript(scripts.RWLockMayShare))
				proxy.ResetCount()
				fault := proxy.Arm(redistest.Fault{Kind: kind})
				next := must(t, mu, take)
				require.True(t, fault.HasFired())
				require.NoError(t, old.Err())
				require.NoError(t, old.Unlock())
				require.NoError(t, next.Unlock())
				f.awaitFree()
				require.Zero(t, mu.InUse())
			})
		}
	}
}
