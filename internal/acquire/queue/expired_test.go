// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/clock"
)

// P2: a grant that is over before its goroutine runs begins no hold. A poll finds what there is.
func TestExpiredGrantIsPolledBeforeItBegins(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	holder, waiter := f.direct(), f.direct()
	held := holder.acquire()
	got := waiter.startWaiting(t.Context(), 1)
	a := waiter.awaitWaiting()
	waiter.mu.Lock()
	a.state = granted
	a.grant = Grant{Stamp: 1, Life: time.Second, Sent: clock.Now().Add(-2 * time.Second)}
	waiter.mu.Unlock()
	a.wake()
	await(t, "it waits again", func() bool {
		return a.currentState() == queued
	})
	require.Empty(t, got)
	holder.release(held)
	b := within(t, "the lock", got).mustHave(t)
	require.Same(t, a, b)
	require.Equal(t, a.ticket(), f.holder())
	waiter.release(b)
	f.awaitNothingLeft(holder, waiter)
}
