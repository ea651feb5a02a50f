// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/multilock"
	"github.com/signalbox-go/signalbox/reentrant"
)

// P6: members that are released together reach their waiters by messages: no poll, which comes once a second, is needed.
func TestReleasedMembersReachTheirWaitersByMessage(t *testing.T) {
	t.Parallel()
	const latency = time.Millisecond
	bubble(t, func(f *fixture) {
		users, closeAll := f.queueUsers(f.T, 2, latency)
		defer closeAll()
		mine, theirs := users[0].Session, users[1].Session
		lease := atOnce(f.T, multilock.New(reentrant.New(mine, "a"), fair.New(mine, "b"), reentrant.New(mine, "c")))
		waiting := []<-chan lockResult{
			queuedAndListening(f.Context(), fair.New(theirs, "a")), queuedAndListening(f.Context(), reentrant.New(theirs, "b")),
		}
		released := time.Now()
		require.NoError(f, lease.Unlock())
		for _, next := range waiting {
			got := <-next
			require.NoError(f, got.err)
			require.Less(f, got.at.Sub(released), 10*latency)
			require.NoError(f, got.lease.Unlock())
		}
	})
}
