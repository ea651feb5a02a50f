// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/semaphore"
)

// permitWalk is a random walk of clients that acquire permits of the semaphore "a", and what all of them
// must see.
type permitWalk struct {
	server *redistest.Server
	peers  []*peer
	sems   []*semaphore.Semaphore

	capacity, out int
	java          []string // ids, by commas, of what was taken at once
	leases        []leased
}

// leased is what Go took at once.
type leased struct {
	lease signalbox.Lease
	n     int
}

// can reports whether n permits are to be had, and takes note that they are taken then.
func (w *permitWalk) can(n int) bool {
	if w.capacity-w.out < n {
		return false
	}
	w.out += n
	return true
}

// step makes one client do something.
func (w *permitWalk) step(t *testing.T, r *rand.Rand) {
	t.Helper()
	p, sem, n := w.peers[r.IntN(len(w.peers))], w.sems[r.IntN(len(w.sems))], 1+r.IntN(3)
	switch verb := r.IntN(18); {
	case verb < 5:
		ids := p.must(t, "a", "permit-try", "a", n, 0, time.Hour.Milliseconds())
		require.Equal(t, w.can(n), ids != "")
		if ids != "" {
			w.java = append(w.java, ids)
		}
	case verb < 10:
		lease, err := sem.TryAcquire(locktest.Context(t), n)
		switch {
		case w.can(n):
			require.NoError(t, err)
			w.leases = append(w.leases, leased{lease, n})
		case n > w.capacity:
			require.ErrorIs(t, err, signalbox.ErrCapacity)
		default:
			require.ErrorIs(t, err, signalbox.ErrHeld)
		}
	case verb < 13 && len(w.java) > 0:
		i := r.IntN(len(w.java))
		w.give(t, p, w.java[i])
		w.java = slices.Delete(w.java, i, i+1)
	case verb < 16 && len(w.leases) > 0:
		i := r.IntN(len(w.leases))
		require.NoError(t, w.leases[i].lease.Unlock())
		w.out -= w.leases[i].n
		w.leases = slices.Delete(w.leases, i, i+1)
	case verb == 16:
		w.capacity = 1 + r.IntN(8)
		p.must(t, "a", "permit-set", "a", w.capacity)
	case verb == 17:
		w.capacity = 1 + r.IntN(8)
		require.NoError(t, sem.SetCapacity(locktest.Context(t), w.capacity))
	}
}

// give gives permits of Java back: by any of its processes.
func (w *permitWalk) give(t *testing.T, p *peer, ids string) {
	t.Helper()
	n := strings.Count(ids, ",") + 1
	require.Equal(t, strconv.Itoa(n), p.must(t, "a", "permit-give-all", "a", ids))
	w.out -= n
}

// check fails the test if a client sees something else.
func (w *permitWalk) check(t *testing.T, r *rand.Rand) {
	t.Helper()
	require.Equal(t, strconv.Itoa(w.capacity-w.out), w.server.MustDo(t, "GET", "a"))
	require.Len(t, permits(t, w.server, "a"), w.out)
	there := []string{"a"}
	if w.out > 0 {
		there = append(there, "{a}:timeout")
	}
	requireKeys(t, w.server, there...)
	p, sem := w.peers[r.IntN(len(w.peers))], w.sems[r.IntN(len(w.sems))]
	for verb, want := range map[string]int{"permit-available": w.capacity - w.out, "permit-acquired": w.out, "permit-capacity": w.capacity} {
		require.Equal(t, strconv.Itoa(want), p.must(t, "a", verb, "a"), verb)
	}
	free, err := sem.Available(locktest.Context(t))
	require.NoError(t, err)
	require.Equal(t, max(w.capacity-w.out, 0), free)
	for _, each := range w.leases {
		require.NoError(t, each.lease.Err())
	}
}

// P1, P8, P9: two Java processes and two sessions in Go acquire and release permits, and set the capacity,
// in any order. A request is granted if and only if there are enough permits, the server has what Redisson
// would have there, and both sides see the same.
func TestBothSidesAgreeWhateverPermitsTheyTake(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		w := &permitWalk{server: server, capacity: 5}
		for range 2 {
			w.peers = append(w.peers, newPeer(t, release, server))
			w.sems = append(w.sems, semaphore.New(newSession(t, server), "a", 5))
		}
		require.Equal(t, "true", w.peers[0].must(t, "a", "permit-found", "a", 5))
		r := random(t)
		for range strides {
			w.step(t, r)
			w.check(t, r)
		}
		for _, ids := range w.java {
			w.give(t, w.peers[0], ids)
		}
		for _, each := range w.leases {
			require.NoError(t, each.lease.Unlock())
		}
		require.Equal(t, strconv.Itoa(w.capacity), server.MustDo(t, "GET", "a"))
		requireKeys(t, server, "a")
	})
}
