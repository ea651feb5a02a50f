// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/election"
)

// P2: in whichever moment of its first two seconds a term loses the server, it ends StepDown before its lease can end
// there, also if StepDown is half of the lease. A term whose candidate waited has the whole lease a round trip after its
// beginning. If it loses the server before, it ends the same share of what it has before its end.
func TestYoungTermStepsDownBeforeItsLeaseCanEnd(t *testing.T) {
	t.Parallel()
	const latency, lease = 2 * time.Millisecond, election.DefaultLease
	for name, c := range map[string]struct {
		options []signalbox.LockOption
		before  time.Duration
		share   time.Duration // the divisor of a lease that is shorter than twice before
		first   time.Duration // the lease of a term whose candidate did not wait
	}{
		"Default": {nil, 5 * time.Second, 3, lease},
		"Half":    {[]signalbox.LockOption{election.StepDown(lease / 2)}, lease / 2, 2, lease},
		"Quarter": {[]signalbox.LockOption{election.StepDown(lease / 4)}, lease / 4, 4, lease},
		"None":    {[]signalbox.LockOption{election.StepDown(0)}, 0, lease, lease},
		"FirstLease": {
			[]signalbox.LockOption{election.StepDown(1500 * time.Millisecond), signalbox.WithFirstLease(3 * time.Second)},
			1500 * time.Millisecond, 10, 3 * time.Second,
		},
		"FirstLeaseAndDefault": {[]signalbox.LockOption{signalbox.WithFirstLease(6 * time.Second)}, 2 * time.Second, 3, 6 * time.Second},
	} {
		for _, age := range []time.Duration{0, 10 * latency, 300 * time.Millisecond, 700 * time.Millisecond, 2 * time.Second} {
			for _, queued := range []bool{false, true} {
				bubbleOfUsers(t, func(f *fixture) {
					what := fmt.Sprint(name, age, queued)
					user, other := f.user(), f.user()
					user.wire.latency.Store(int64(latency))
					e := election.New(user.Session, "a", c.options...)
					var term election.Term
					if queued {
						before := leads(f, election.New(other.Session, "a"))
						led := candidate(f, e)
						time.Sleep(10700 * time.Millisecond) // in the middle between two polls
						require.NoError(f, before.Resign())
						term = <-led
					} else {
						term = leads(f, e)
					}
					time.Sleep(age)
					if queued && age > 0 && c.first == lease {
						require.Greater(f, f.left("a"), lease-age, what)
					}
					user.wire.goSilent()
					had := f.left("a")
					<-term.Done()
					left := f.left("a")
					require.GreaterOrEqual(f, left, min(c.before, had/c.share), what)
					if !queued {
						require.GreaterOrEqual(f, left, c.before, what)
					}
					if !queued && c.first == lease { // no renewal was on its way
						require.LessOrEqual(f, left, c.before+lease/25, "no earlier than it has to: "+what)
					}
					require.ErrorIs(f, term.Resign(), signalbox.ErrLost)
				})
			}
		}
	}
}
