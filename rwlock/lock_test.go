// SPDX-License-Identifier: Apache-2.0

package rwlock_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/rwlock"
)

// Readers are beside each other, in one session and in several.
func TestReadersAreBesideEachOther(t *testing.T) {
	t.Parallel()
	f := sharedFixture(t)
	one, other := f.lock(), f.lock()
	var leases []signalbox.Lease
	for _, mu := range []*rwlock.Lock{one, one, other, other, one} {
		leases = append(leases, must(t, mu, read))
	}
	writer := f.queue(t.Context(), f.lock(), write, 1)
	for _, lease := range leases {
		require.False(t, locktest.IsClosed(writer), "beside a reader")
		require.NoError(t, lease.Err())
		require.NoError(t, lease.Unlock())
	}
	require.NoError(t, locktest.MustHave(t, writer).Unlock())
}

// P3: a writer's token is greater than those of all before it, a reader's than those of all writers before it; those
// that share a hold share a token.
func TestTokensRiseWithEveryWriter(t *testing.T) {
	t.Parallel()
	f := sharedFixture(t)
	one, other := f.lock(), f.lock()
	var last uint64
	for range 5 {
		lease := must(t, one, write)
		require.Greater(t, lease.Token(), last)
		writer := lease.Token()
		require.NoError(t, lease.Unlock())
		first, second, third := must(t, one, read), must(t, one, read), must(t, other, read)
		require.Equal(t, first.Token(), second.Token())
		require.Greater(t, first.Token(), writer)
		require.Greater(t, third.Token(), writer)
		last = max(first.Token(), third.Token())
		for _, lease := range []signalbox.Lease{first, second, third} {
			require.NoError(t, lease.Unlock())
		}
	}
}

// Order: writers have the lock in the order in which they asked for it.
func TestWritersComeInTheOrderInWhichTheyAsked(t *testing.T) {
	t.Parallel()
	f := sharedFixture(t)
	mus := []*rwlock.Lock{f.lock(), f.lock(), f.lock()}
	lease := must(t, mus[0], write)
	var waiting []<-chan result
	for n := range 9 {
		waiting = append(waiting, f.queue(t.Context(), mus[n*n%3], write, n+1))
	}
	for n, next := range waiting {
		require.NoError(t, lease.Unlock())
		lease = locktest.MustHave(t, next)
		for _, after := range waiting[n+1:] {
			require.False(t, locktest.IsClosed(after))
		}
	}
	require.NoError(t, lease.Unlock())
}

// P10: every error says what was asked of which lock.
func TestErrorsNameTheOperationAndTheLock(t *testing.T) {
	t.Parallel()
	f := sharedFixture(t)
	holder := must(t, f.lock(), write)
	mu := f.lock()
	var none signalbox.Lease
	nothing := func(context.Context, signalbox.Lease) error { return nil }
	for op, errs := range map[string][]error{
		"try lock":      {second(mu.TryLock(t.Context()))},
		"try read lock": {second(mu.TryRLock(t.Context()))},
		"lock":          {second(mu.Lock(locktest.Ended())), mu.Do(locktest.Ended(), nothing), locktest.PanicOf(mu.Locker(locktest.Ended()).Lock)},
		"read lock":     {second(mu.RLock(locktest.Ended())), mu.RDo(locktest.Ended(), nothing), locktest.PanicOf(mu.RLocker(locktest.Ended()).Lock)},
		"downgrade":     {mu.Downgrade(t.Context(), none)},
		"force unlock":  {f.of("b").lock().ForceUnlock(t.Context())},
	} {
		for _, err := range errs {
			var of *signalbox.OpError
			require.ErrorAs(t, err, &of, op)
			require.Equal(t, op, of.Op)
			if op != "force unlock" {
				require.Equal(t, f.name, of.Name)
			}
		}
	}
	require.EqualError(t, second(mu.TryRLock(t.Context())), fmt.Sprintf("signalbox: try read lock %q: the lock is held", f.name))
	require.NoError(t, holder.Unlock())
}
