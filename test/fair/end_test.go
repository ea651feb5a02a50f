// SPDX-License-Identifier: Apache-2.0

package fair_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// P2, P8: Unlock of a lease that has ended returns ErrLost, whether or not the lock has another holder by
// then, and whatever ended it; the next holder is left alone.
func TestUnlockOfALeaseThatHasEndedIsErrLost(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(t *testing.T, f *fixture){
		"Expired": nil,
		"Deleted": func(t *testing.T, f *fixture) {
			t.Helper()
			f.server.MustDo(t, "DEL", locktest.Key("Deleted"))
		},
		"Flushed": func(t *testing.T, f *fixture) {
			t.Helper()
			f.server.MustDo(t, "FLUSHALL")
		},
		"Restarted": func(t *testing.T, f *fixture) {
			t.Helper()
			f.server.Restart()
			redistest.Await(t, "a new connection", func() bool {
				_, err := fair.New(f.holder, "Restarted").IsLocked(t.Context())
				return err == nil
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			option := signalbox.WithRenewedLease(6 * time.Second)
			if end == nil {
				option = signalbox.WithFixedLease(100 * time.Millisecond)
			}
			lease := f.hold(t, name, option)
			if end == nil {
				redistest.Receive(t, "the lease ends", lease.Done())
			} else {
				end(t, f)
			}
			require.ErrorIs(t, lease.Unlock(), signalbox.ErrLost)
			require.Error(t, lease.Unlock(), "the second time")
			f.nothingLeft(t)
		})
	}
}

// P8: only the lease unlocks, once.
func TestUnlockOfWhatIsNotHeldIsErrNotHeld(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const name = "mine"
	lease := f.hold(t, name)
	require.NoError(t, lease.Unlock())
	next := locktest.MustHave(t, begins(t, f.waiter, name))
	require.ErrorIs(t, lease.Unlock(), signalbox.ErrNotHeld)
	require.ErrorIs(t, signalbox.Lease{}.Unlock(), signalbox.ErrNotHeld)
	require.NoError(t, next.Err())
	require.Equal(t, next.Token(), f.view.MustHold(t, name).Token)
	require.NoError(t, next.Unlock())
	f.nothingLeft(t)
}
