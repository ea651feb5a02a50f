// SPDX-License-Identifier: Apache-2.0

package servers_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/redlock"
)

// The servers of a quorum whose clocks are off.
const ahead, behind = 1, 3

// quorum returns five servers of which one is a minute ahead, and another as far behind.
func quorum(t *testing.T) (servers []*redistest.Server) {
	t.Helper()
	redistest.NeedClocks(t)
	for i := range 5 {
		s := redistest.Start(t, redistest.WithClockAhead(map[int]time.Duration{ahead: off, behind: -off}[i]))
		require.NoError(t, locktest.Establish(s))
		servers = append(servers, s)
	}
	return servers
}

// process returns sessions as a process of its own would have them.
func process(t *testing.T, servers []*redistest.Server) (sessions []*signalbox.Session) {
	t.Helper()
	for _, s := range servers {
		sessions = append(sessions, locktest.SteadySession(t, s))
	}
	return sessions
}

// P1, P3: servers whose times differ by two minutes grant a lock to one holder at a time, and tokens rise as
// long as each hold is released. test/virtual covers renewals, crashes, minority votes and servers that lost
// their data.
func TestAQuorumWhoseServersDisagreeOnTheTime(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]signalbox.LockOption{"Plain": {}, "Fenced": {redlock.Fenced()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers := quorum(t)
			one := redlock.New(process(t, servers), "a", options...)
			other := redlock.New(process(t, servers), "a", options...)
			third := redlock.New(process(t, servers), "a", options...)
			var last uint64
			for range 3 {
				lease := locktest.Must(t, one.Lock)
				require.Greater(t, lease.Token(), last)
				last = lease.Token()
				waiting := locktest.LaterWith(locktest.Context(t), other.Lock)
				// A server that does not reply in a tenth of a lease says nothing, and a vote without it may
				// be undecided.
				redistest.Await(t, "the reply that the lock is held", func() bool {
					_, err := third.TryLock(locktest.Context(t))
					require.Error(t, err)
					return errors.Is(err, signalbox.ErrHeld)
				})
				require.NoError(t, lease.Err())
				releaseQuorum(t, lease)
				next := locktest.MustHave(t, waiting)
				require.Greater(t, next.Token(), last)
				last = next.Token()
				releaseQuorum(t, next)
				one, other = other, one
			}
		})
	}
}

// releaseQuorum unlocks. A quorum that does not confirm that in a second, on a machine that stalls, is released
// later.
func releaseQuorum(t *testing.T, lease signalbox.Lease) {
	t.Helper()
	if err := lease.Unlock(); err != nil {
		require.ErrorIs(t, err, signalbox.ErrUnconfirmed)
	}
}
