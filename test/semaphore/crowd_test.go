// SPDX-License-Identifier: Apache-2.0

package semaphore_test

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/semaphore"
)

// P1, P4: processes of a crowd are killed and stopped, wherever they are. Meanwhile the held permits never
// exceed the capacity, the others continue, and in the end all permits come back.
func TestCountIsNeverAboveTheCapacityThoughProcessesDie(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "processes that are killed and stopped")
	left := 4
	stopAndKill(t, func() bool { left--; return left >= 0 })
}

func TestSoakCountIsNeverAboveTheCapacityThoughProcessesDie(t *testing.T) { //nolint:paralleltest // has the machine to itself
	stopAndKill(t, locktest.Soak(t))
}

func stopAndKill(t *testing.T, more func() bool) {
	t.Helper()
	const capacity, processes, lease = 5, 3, time.Second
	server := redistest.Start(t)
	redistest.LoadScripts(t, server)
	v := newView(t, server, children)
	stop := v.check(t, capacity)
	crowd := make([]*redistest.Process, processes)
	for i := range crowd {
		crowd[i] = start(t, server, capacity, lease)
	}
	continues := func(p *redistest.Process) {
		for uses, since := 0, wire.Stamp(time.Now().UnixMicro()).Token(); uses < 20; {
			line, err := p.ReadLine(redistest.WaitLimit)
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
			continues(crowd[(i+1)%processes])
			crowd[i] = start(t, server, capacity, lease)
			kills++
			continue
		}
		crowd[i].Freeze()
		continues(crowd[(i+1)%processes])
		crowd[i].Thaw()
		continues(crowd[i])
		stops++
	}
	for _, p := range crowd {
		p.Kill()
		require.Empty(t, p.Failures())
	}
	sem := semaphore.New(locktest.Session(t, server), children, capacity)
	all := take(t, sem, capacity) // though none of those released anything
	most, checks := stop()
	t.Logf("%d killed, %d stopped, %d checks, at most %d of %d held", kills, stops, checks, most, capacity)
	require.Positive(t, checks)
	require.NoError(t, all.Unlock())
	locktest.NewView(t, server).NoImmortals(t)
}

// P2, P6: the permits of a holder that was killed stay its own until its lease ends, and are granted to a
// waiter then.
func TestPermitsOfAKilledHolderComeBackWithItsLease(t *testing.T) {
	t.Parallel()
	const capacity, lease = 4, time.Hour
	server := redistest.Start(t)
	v := newView(t, server, children)
	sem := semaphore.New(locktest.Session(t, server), children, capacity)
	p := start(t, server, capacity, lease)
	redistest.Await(t, "that it is stopped while it has permits", func() bool {
		p.Freeze()
		has := v.held(t) > 0
		if !has {
			p.Thaw()
		}
		return has
	})
	p.Kill()
	// Tickets of its waiters end by their heartbeats, see TestPermitTicketOfACrashedWaiterEnds.
	server.MustDo(t, "DEL", locktest.Keys(children).PermitsQueue(), locktest.Keys(children).PermitsHeartbeats())
	waiting := acquireLater(t, sem, capacity)
	redistest.Await(t, "a ticket", func() bool { return v.waiting(t) > 0 })
	key := locktest.Keys(children).Permits()
	for h, err := range sem.Holders(t.Context()) {
		require.NoError(t, err)
		require.WithinRange(t, h.Until, locktest.ServerTime(t, server), locktest.ServerTime(t, server).Add(lease))
	}
	require.Empty(t, waiting)
	for _, member := range server.MustDo(t, "ZRANGE", key, "1000000000000000", "+inf", "BYSCORE").([]any) {
		server.MustDo(t, "ZADD", key, locktest.ServerTime(t, server).UnixMicro(), member) // an hour later
	}
	_, err := sem.TryAcquire(t.Context(), 1) // any call serves the waiter, as its own next poll does
	require.ErrorIs(t, err, signalbox.ErrHeld)
	require.NoError(t, gets(t, waiting).Unlock())
	n, err := sem.Available(t.Context())
	require.NoError(t, err)
	require.Equal(t, capacity, n)
}
