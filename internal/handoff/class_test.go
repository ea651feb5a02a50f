// SPDX-License-Identifier: Apache-2.0

package handoff

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Who was told something may wait elsewhere before serve returns, with the same waiter: what ends its wait there is not what
// serve answers.
func TestWhoIsServedMayWaitElsewhereAtOnce(t *testing.T) {
	t.Parallel()
	for range 1000 {
		var (
			q         = class{queue: new(Queue)}
			elsewhere sync.WaitGroup
		)
		w := &waiter{news: make(chan news)} // without room, so that it goes on before serve does
		q.append(w)
		elsewhere.Go(func() {
			<-w.news
			w.call = func() {}
		})
		call := q.serve(w, news{})
		elsewhere.Wait()
		require.Nil(t, call, "it ends the wait elsewhere")
	}
}
