// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/reentrant"
)

// P6: whenever a release falls, on its way to the subscription or after, the waiter learns of
// it by the confirmation or by the message, well before its first poll.
func TestReleaseAtAnyInstantWakesTheWaiterAtOnce(t *testing.T) {
	t.Parallel()
	const latency, instants, step = 20 * time.Millisecond, 40, 7 * time.Millisecond
	bubble(t, func(f *fixture) {
		t := f.T
		holder, _, closeHolder := f.session(t)
		defer closeHolder()
		for i := range instants {
			name := fmt.Sprint("instant/", i)
			s, link, closeWaiter := f.session(t)
			link.latency.Store(int64(latency))
			held, err := reentrant.New(holder, name).Lock(t.Context())
			require.NoError(t, err)
			var released time.Time
			time.AfterFunc(time.Duration(i)*step, func() {
				released = time.Now()
				_ = held.Unlock()
			})
			lease, err := reentrant.New(s, name).Lock(t.Context())
			require.NoError(t, err)
			// The rest of the way to the subscription, which is a connection of its own, and a try.
			require.Less(t, time.Since(released), 16*latency, "released after %v", time.Duration(i)*step)
			require.NoError(t, lease.Unlock())
			closeWaiter()
		}
	})
}
