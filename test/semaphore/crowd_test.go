// SPDX-License-Identifier: Apache-2.0

package semaphore_test

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/locktest"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/internal/stamp"
	"github.com/signalbox-go/signalbox/internal/wire/wiretest"
	"github.com/signalbox-go/signalbox/semaphore"
)

// P1, P4: while processes of a crowd are killed and stopped, wherever they are, the permits that are out are never
// more than there are, the others go on, and in the end all permits come back.
func TestCountIsNeverAboveTheCapacityThoughProcessesDie(t *testing.T) {
	t.Parallel()
	left := 8
	strikes(t, func() bool { left--; return left >= 0 })
}

func TestSoakCountIsNeverAboveTheCapacityThoughProcessesDie(t *testing.T) { //nolint:paralleltest // has the machine to itself
	strikes(t, locktest.Soak(t))
}

func strikes(t *testing.T, more func() bool) {
	t.Helper()
	const capacity, processes, lease = 5, 3, time.Second
	server := redistest.Start(t)
	wiretest.LoadScripts(t, server)
	v := newView(t, server, children)
	stop := v.check(t, capacity)
	crowd := make([]*redistest.Process, processes)
	for i := range crowd {
		crowd[i] = start(t, server, capacity, lease)
	}
	goesOn := func(p *redistest.Process) {
		for uses, since := 0, stamp.Stamp(time.Now().UnixMicro()).Token(); uses < 20; {
			line, err := p.ReadLine(bound)
			require.NoError(t, err, p.Stderr())
			token, err := strconv.ParseUint(strings.TrimPrefix(line, "has "), 10, 64)
			require.NoError(t, err, line)
			if token > since { // others were written before
				uses++
			}
		}
	}
	kills, stops := 0, 0
	for more() {
		i := rand.N(processes)
		if rand.N(3) > 0 {
			crowd[i].Kill()
			goesOn(crowd[(i+1)%processes])
			crowd[i] = start(t, server, capacity, lease)
			kills++
			continue
		}
		crowd[i].Freeze()
		goesOn(crowd[(i+1)%processes])
		crowd[i].Thaw()
		goesOn(crowd[i])
		stops++
	}
	for _, p := range crowd {
		p.Kill()
		require.Empty(t, p.Stderr())
	}
	sem := semaphore.New(locktest.Session(t, server), children, capacity)
	all := take(t, sem, capacity) // though nobody of those gave anything back
	most, looks := stop()
	t.Logf("%d killed, %d stopped, %d looks, %d of %d out at the most", kills, stops, looks, most, capacity)
	require.Positive(t, looks)
	require.NoError(t, all.Unlock())
	locktest.NewView(t, server).NoImmortals(t)
}

// H10: the permits of a holder that was killed are free within its lease, for who waits and for who looks.
func TestPermitsOfAKilledHolderComeBackWithinItsLease(t *testing.T) {
	t.Parallel()
	const capacity, lease = 4, 3 * time.Second
	server := redistest.Start(t)
	v := newView(t, server, children)
	sem := semaphore.New(locktest.Session(t, server), children, capacity)
	for v.out(t) == 0 { // until one died with permits
		p := start(t, server, capacity, lease)
		redistest.Await(t, "it has permits", func() bool { return v.out(t) > 0 })
		p.Kill()
	}
	killed := time.Now()
	all := take(t, sem, capacity)
	t.Logf("all permits were free %v after the kill", time.Since(killed).Round(time.Millisecond))
	require.NoError(t, all.Unlock())
	n, err := sem.Available(t.Context())
	require.NoError(t, err)
	require.Equal(t, capacity, n)
}

// P1, H12: while the capacity is set again and again, nothing is granted beyond it: what is out is never more than
// the greatest capacity that there was.
func TestCountIsNeverAboveTheCapacityThoughItChanges(t *testing.T) {
	t.Parallel()
	const greatest, users = 9, 12
	server := redistest.Start(t)
	v := newView(t, server, "resized")
	stop := v.check(t, greatest)
	sessions := []*signalbox.Session{locktest.Session(t, server), locktest.Session(t, server), locktest.Session(t, server)}
	var served atomic.Int64
	setter := semaphore.New(sessions[0], "resized", greatest)
	ctx := long(t)
	locktest.Together(t, users+1, func(i int) error {
		if i == users {
			for served.Load() < 600 {
				// One that was not answered in time may be done or not, and can be repeated.
				if err := setter.SetCapacity(ctx, 3+rand.N(greatest-2)); err != nil && ctx.Err() != nil {
					return err
				}
			}
			return setter.SetCapacity(ctx, greatest)
		}
		sem := semaphore.New(sessions[i%len(sessions)], "resized", greatest)
		for served.Load() < 600 {
			lease, err := sem.Acquire(ctx, 1+rand.N(3))
			if err != nil {
				return err
			}
			served.Add(1)
			if err := locktest.Confirmed(lease.Unlock()); err != nil {
				return err
			}
		}
		return nil
	})
	most, looks := stop()
	t.Logf("%d looks, %d out at the most", looks, most)
	// Who was passed permits while it stood in line leaves that, or gives back what came in the same instant, a moment later.
	redistest.Await(t, "the end of all that was granted", func() bool { return v.out(t) == 0 && v.waiting(t) == 0 })
}
