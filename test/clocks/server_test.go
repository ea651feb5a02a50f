// SPDX-License-Identifier: Apache-2.0

package clocks_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/locktest"
	"github.com/signalbox-go/signalbox/internal/redistest"
)

const (
	off  = time.Minute     // how far a clock is from ours
	life = 5 * time.Second // long enough for a machine that stalls for some
)

// P1, P2, P3: a server whose clock is a minute from that of its clients serves every kind of lock as any other does: leases are renewed, who
// waits is kept out and let in, and tokens rise.
func TestAServersClockIsAMinuteOff(t *testing.T) {
	t.Parallel()
	redistest.NeedClocks(t)
	for name, ahead := range map[string]time.Duration{"Ahead": off, "Behind": -off} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, redistest.WithClockAhead(ahead))
			locktest.Each(t, func(t *testing.T, p locktest.Primitive) {
				one := p.New(locktest.Session(t, server), p.Name, signalbox.RenewedLease(life))
				other := p.New(locktest.Session(t, server), p.Name, signalbox.RenewedLease(life))
				var last uint64
				for range 3 {
					lease := mustLock(t, one)
					require.Greater(t, lease.Token(), last)
					last = lease.Token()
					waiting := lockLater(t, other)
					renewedTwice(t, lease)
					_, err := p.New(locktest.Session(t, server), p.Name).TryLock(locktest.Context(t))
					require.ErrorIs(t, err, signalbox.ErrHeld)
					select {
					case <-waiting:
						require.Fail(t, "held by two")
					default:
					}
					require.NoError(t, lease.Unlock())
					next := mustHave(t, waiting)
					require.Greater(t, next.Token(), last)
					last = next.Token()
					require.NoError(t, next.Unlock())
				}
			})
		})
	}
}

// P2: what a process leaves that is cut off ends with its lease: not before the process knows, and not an hour later, either.
func TestAHoldEndsInTimeWhateverTheServersClockSays(t *testing.T) {
	t.Parallel()
	redistest.NeedClocks(t)
	for name, ahead := range map[string]time.Duration{"Ahead": off, "Behind": -off} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, redistest.WithClockAhead(ahead))
			locktest.Each(t, func(t *testing.T, p locktest.Primitive) {
				wire := redistest.NewProxy(t, server.Addr())
				lease := mustLock(t, p.New(locktest.Session(t, wire), p.Name, signalbox.RenewedLease(life)))
				renewedTwice(t, lease)
				wire.Refuse()
				wire.CutAll()
				// It waits no longer than a test should: for the lease, and for what a fair lock and others keep of a hold beyond it.
				next := mustLock(t, p.New(locktest.Session(t, server), p.Name, signalbox.RenewedLease(life)))
				require.ErrorIs(t, lease.Err(), signalbox.ErrLost, "held by two")
				require.Greater(t, next.Token(), lease.Token())
				require.NoError(t, next.Unlock())
			})
		})
	}
}
