// SPDX-License-Identifier: Apache-2.0

package local

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// A waiter that was served may wait elsewhere before serve returns, with the same waiter. What ends that
// new wait is not what serve returns.
func TestAServedWaiterMayWaitElsewhereAtOnce(t *testing.T) {
	t.Parallel()
	for range 1000 {
		var (
			q         = waitlist{queue: new(Queue)}
			elsewhere sync.WaitGroup
		)
		w := &waiter{events: make(chan event)} // without a buffer, so that it continues before serve does
		q.append(w)
		elsewhere.Go(func() {
			<-w.events
			w.cancelWait = func() {}
		})
		call := q.serve(w, event{})
		elsewhere.Wait()
		require.Nil(t, call, "it ends the wait elsewhere")
	}
}
