// SPDX-License-Identifier: Apache-2.0

package multilock_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

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
