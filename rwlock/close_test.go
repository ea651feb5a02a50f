// SPDX-License-Identifier: Apache-2.0

package rwlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/rwlock"
)

// P4: nothing is in use after a function that panics, by too few replicas, or by a Close that does not wait. That nothing is left
// on the server is shown for all kinds of lock in test/kinds.
func TestCallsThatFailLeaveNothingInUse(t *testing.T) {
	t.Parallel()
	f := sharedFixture(t)
	s := f.session()
	mu, short := rwlock.New(s, f.name), rwlock.New(s, f.name, signalbox.WithReplicas(1, time.Millisecond))
	require.Panics(t, func() {
		_ = mu.RDo(t.Context(), func(context.Context, signalbox.Lease) error { panic("no funds") })
	})
	require.Zero(t, mu.InUse())
	for _, take := range []lockMethod{tryWrite, write, tryRead, read} {
		require.ErrorIs(t, locktest.MustFail(t, later(t.Context(), short, take)), signalbox.ErrNotReplicated)
		require.Zero(t, mu.InUse())
	}
	for range 2 {
		must(t, mu, read)
	}
	require.Error(t, s.Close(locktest.Ended()))
	require.Zero(t, mu.InUse())
	f.awaitFree()
}
