// SPDX-License-Identifier: Apache-2.0

package shardedendpoint_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// P1, P2, P6: 200 names of mixed kinds stay held for as long as a soak lasts, in calls of one slot each, and then their waiters
// get them. test/virtual does the same in virtual time.
func TestSoakOfMixedKindsBehindOneEndpoint(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		make   func(t *testing.T) *shardedEndpoint
		faults locktest.RouterFaults
	}{
		"OneNode":   {routedNode, locktest.NoFaults},
		"OwnWords":  {routed(redistest.OwnWords, 2), locktest.NoFaults},
		"FirstKey":  {routed(redistest.FirstKey, 2), locktest.NoFaults},
		"Invents":   {routed(redistest.OwnWords, 2), locktest.InventsErrors},
		"Redirects": {routed(redistest.Refusing, 2), locktest.Redirects},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			more := locktest.Soak(t)
			const life = 9 * time.Second // a machine may stall for some seconds, and a leader steps down a third of a lease before its end
			e := c.make(t)
			router, _ := e.to.(*redistest.Router)
			m := locktest.HoldMany(t.Context(), t, router, c.faults, e.session(), e.session(), 200, life)
			began := time.Now()
			for tick := time.NewTicker(50 * time.Millisecond); more(); <-tick.C {
				m.Check()
			}
			require.GreaterOrEqual(t, m.LeastRenewals(), int(time.Since(began)/life)-1)
			m.CheckCost()
			m.Release()
			e.nothingLeft()
		})
	}
}
