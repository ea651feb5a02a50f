// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// P6: a call takes a round trip and a tenth at the most, however far the server is and however many are made at the same
// time.
func TestFarServerCostsARoundTripAndATenth(t *testing.T) {
	t.Parallel()
	for _, roundTrip := range []time.Duration{10 * time.Millisecond, 40 * time.Millisecond} {
		for _, n := range []int{5, 64, 200, 1_000}[:redistest.Rounds(3, 4)] {
			bubbleOfUsers(t, func(f *fixture) {
				c, link := f.client(f.T, func(o *rueidis.ClientOption) { o.RingScaleEachConn = 10 }) // room for all of them
				defer c.Close()
				s := signalbox.NewSession(c)
				defer func() { require.NoError(f, s.Close(f.Context())) }()
				link.latency.Store(int64(roundTrip / 2))
				for range 40 { // the server has the scripts then, also that of the short release
					warm, err := reentrant.New(s, "warm").Lock(f.Context())
					require.NoError(f, err)
					require.NoError(f, warm.Unlock())
				}
				leases := make([]signalbox.Lease, n)
				for round := range 3 {
					lasted := took(func() {
						locktest.Together(f, n, func(i int) (err error) {
							leases[i], err = reentrant.New(s, fmt.Sprint("far/", i)).Lock(f.Context())
							return err
						})
					})
					require.LessOrEqual(f, lasted, roundTrip*11/10, "round %d: %d locks", round, n)
					lasted = took(func() { locktest.Together(f, n, func(i int) error { return leases[i].Unlock() }) })
					require.LessOrEqual(f, lasted, roundTrip*11/10, "round %d: %d unlocks", round, n)
				}
				synctest.Wait()
			})
		}
	}
}
