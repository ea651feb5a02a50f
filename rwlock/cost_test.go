// SPDX-License-Identifier: Apache-2.0

package rwlock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/rwlock"
)

// Speed: a reader or a writer for which no other waits costs the server 10 commands, those of its scripts
// included.
func TestALockWithoutWaitersCostsTenCommands(t *testing.T) {
	t.Parallel()
	const pairs = 20
	most := 10
	if redistest.IsOld(t) {
		most += 2 // PTTL before each PEXPIRE
	}
	for name, c := range map[string]struct{ writes, beside bool }{
		"Writer": {writes: true}, "Reader": {}, "ReaderBesideAnother": {beside: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := ownFixture(t)
			mu := f.lock()
			take := mu.RLock
			if c.writes {
				take = mu.Lock
			}
			if c.beside {
				// Its session renews nothing, and does not ask for the hold when it begins to listen.
				still := locktest.SteadySession(t, f.server, signalbox.WithPolling())
				locktest.Must(t, rwlock.New(still, f.name, signalbox.WithFixedLease(time.Hour)).RLock)
			}
			require.NoError(t, locktest.Must(t, take).Unlock(), "the server learns the scripts")
			before := redistest.Work(f.server)
			for range pairs {
				require.NoError(t, locktest.Must(t, take).Unlock())
			}
			require.LessOrEqual(t, redistest.Work(f.server)-before, int64(pairs*most))
		})
	}
}
