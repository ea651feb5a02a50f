// SPDX-License-Identifier: Apache-2.0

package topologies_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// P3, P6: a session leaves its idle lock when another one recalls it. A try leaves no mark, so no renewal learns of it: the message
// does that.
func TestAnIdleLockIsRecalledByMessage(t *testing.T) {
	t.Parallel()
	everywhereOf(t, []locktest.Primitive{locktest.Reentrant()}, func(f *fixture) {
		s, name := f.session(), f.name()
		mine := reentrant.New(s, name, signalbox.WithKeepWarm(time.Minute), signalbox.WithFirstLease(3*time.Second))
		other := reentrant.New(f.session(), name)
		keep := func() (token uint64) {
			redistest.Await(f, "an idle lock", func() bool {
				lease := f.mustLock(locktest.Context(f), mine)
				token = lease.Token()
				_ = lease.Unlock() // which a machine that stalls for long enough has lost
				return s.IdleLocks() == 1
			})
			return token
		}
		used := keep()
		lease := f.mustLock(locktest.Context(f), other)
		require.Greater(f, lease.Token(), used)
		require.NoError(f, lease.Unlock())

		used = keep()
		redistest.Await(f, "a try after the recall", func() bool {
			var err error
			lease, err = other.TryLock(locktest.Context(f))
			return err == nil
		})
		require.Greater(f, lease.Token(), used)
		require.NoError(f, lease.Unlock())
		require.Zero(f, s.IdleLocks())
	})
}
