// SPDX-License-Identifier: Apache-2.0

package multilock_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/multilock"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/rwlock"
	"github.com/signalbox-go/signalbox/semaphore"
)

// everything returns a permit, and ten locks; the last two are one, to write and to read.
func everything(s *signalbox.Session) []multilock.Member {
	all := []multilock.Member{semaphore.New(s, "p0", 2).Permits(1)}
	for i := range 6 {
		all = append(all, reentrant.New(s, fmt.Sprint("r", i)))
	}
	both := rwlock.New(s, "w0")
	return append(all, fair.New(s, "f0"), fair.New(s, "f1"), rwlock.New(s, "w1"), both, both.Reader())
}

// P6: the order of members is that of a cluster's slots, also in a process that does not know the cluster.
// Locks of every kind have the same position with a client of one server as with a client of a cluster, and
// their slots are those of the cluster.
func TestPositionsAreTheSameWithAClusterAndWithout(t *testing.T) {
	t.Parallel()
	c := redistest.Start(t, redistest.WithArgs("--cluster-enabled", "yes")) // a cluster of one, which knows all slots
	c.AddAllSlots(t)
	of := func(s *signalbox.Session) (places []session.Place) {
		for _, m := range everything(s) {
			places = append(places, session.PlaceHandle(m.Place()).Place())
		}
		slices.SortFunc(places, session.Compare)
		return places
	}
	apart, single := of(locktest.SteadySession(t, c)), of(locktest.SteadySession(t, redistest.Start(t)))
	require.Len(t, single, len(apart))
	seen := map[uint16]bool{}
	for i, p := range apart {
		require.Equal(t, fmt.Sprint(p.Slot, p.Key, p.Kind), fmt.Sprint(single[i].Slot, single[i].Key, single[i].Kind))
		require.EqualValues(t, locktest.Count(t, c, "CLUSTER", "KEYSLOT", p.Key), single[i].Slot, p.Key)
		seen[p.Slot] = true
	}
	require.Greater(t, len(seen), 5)
}
