// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func (l load) needed(t *testing.T, resource string) float64 {
	t.Helper()
	for _, n := range l.needs() {
		if n.name == resource {
			return n.value
		}
	}
	require.FailNow(t, "no such resource", resource)
	return 0
}

func TestTheModelAgreesWithRuns(t *testing.T) {
	t.Parallel()
	for _, run := range []struct {
		name string
		load load
		core float64 // that was measured; results.txt
	}{
		{"held", load{held: 10_000, lease: 3 * time.Second, name: 10, processes: 1}, 0.044},
		{"waiters", load{held: 2_000, lease: 30 * time.Second, name: 10, processes: 1, waiters: 20_000, waited: 2_000}, 0.0065},
		{"shards", load{shards: 10_000, members: 100, processes: 100}, 0.0234},
	} {
		require.InEpsilon(t, run.core, run.load.needed(t, "a core of a server"), 0.3, run.name)
	}
}

func TestMoreMastersAndALongerLeaseNeedLess(t *testing.T) {
	t.Parallel()
	l := load{held: 1_000_000, lease: 30 * time.Second, name: 20, processes: 100, masters: 10}
	before := l.needed(t, "a core of a server")
	l.masters = 20
	require.InDelta(t, before/2, l.needed(t, "a core of a server"), 1e-9)
	l.lease *= 2
	require.InDelta(t, before/4, l.needed(t, "a core of a server"), 1e-9)
}

func TestTheFirstResourceIsNamed(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	require.NoError(t, load{held: 10_000_000, lease: 30 * time.Second, name: 20, processes: 1000, masters: 100, outage: 10 * time.Second}.print(&out))
	require.Contains(t, out.String(), "First: ")
}

func TestAnOutageOfTwoThirdsOfALeaseIsTooLong(t *testing.T) {
	t.Parallel()
	l := load{held: 10_000, lease: 30 * time.Second, processes: 50, outage: 18 * time.Second}
	fits := func() bool {
		i := slices.IndexFunc(l.needs(), func(n need) bool { return strings.HasPrefix(n.name, "renewing all") })
		return l.needs()[i].share() < 1
	}
	require.True(t, fits(), "a run lost none")
	l.outage = 20 * time.Second
	require.False(t, fits(), "a run lost 951")
}
