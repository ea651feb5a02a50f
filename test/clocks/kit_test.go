// SPDX-License-Identifier: Apache-2.0

package clocks_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/locktest"
	"github.com/signalbox-go/signalbox/internal/redistest"
)

// mustLock locks in time.
func mustLock(t *testing.T, mu locktest.Lock) signalbox.Lease {
	t.Helper()
	lease, err := mu.Lock(locktest.Context(t))
	require.NoError(t, err)
	require.NoError(t, lease.Err())
	return lease
}

// lockLater locks on another goroutine. The zero Lease says that it failed.
func lockLater(t *testing.T, mu locktest.Lock) <-chan signalbox.Lease {
	t.Helper()
	ctx, got := locktest.Context(t), make(chan signalbox.Lease, 1)
	go func() {
		lease, err := mu.Lock(ctx)
		if err != nil {
			t.Error(err)
		}
		got <- lease
	}()
	return got
}

// mustHave takes the lease that a call answers.
func mustHave(t *testing.T, got <-chan signalbox.Lease) signalbox.Lease {
	t.Helper()
	lease := <-got // its context ends in time
	require.NotZero(t, lease)
	require.NoError(t, lease.Err())
	return lease
}

// renewedTwice waits until a lease has been renewed twice.
func renewedTwice(t *testing.T, lease signalbox.Lease) {
	t.Helper()
	first := lease.Deadline()
	redistest.Await(t, "two renewals", func() bool { return lease.Deadline().After(first.Add(life / 2)) })
	require.NoError(t, lease.Err())
}
