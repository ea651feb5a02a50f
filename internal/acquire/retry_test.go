// SPDX-License-Identifier: Apache-2.0

package acquire_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

// scriptsDuring returns how often a script ran while do did.
func (f *fixture) scriptsDuring(do func()) int64 {
	f.Helper()
	before := f.server.CommandStats()["evalsha"].Calls
	do()
	return f.server.CommandStats()["evalsha"].Calls - before
}

// P7: writers of a session try one at a time, in their order: two scripts for each hand-off, however many
// wait.
func TestWritersOfASessionTryOneAtATimeInOrder(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u, other := f.join(f.server), f.join(f.server)
	first := other.acquire(writes)
	const waiters = 20
	var waits [waiters]<-chan outcome
	for n := range waits {
		waits[n] = u.startAcquire(t.Context(), writes)
	}
	f.awaitListeners(1)
	began := time.Now()
	scripts := f.scriptsDuring(func() {
		f.release(first)
		for n := range waits {
			a := f.receiveHold(waits[n])
			for _, later := range waits[n+1:] {
				require.Empty(t, later, "before its turn")
			}
			f.release(a)
		}
	})
	polls := 2 + 2*int64(time.Since(began)/time.Second)
	const early = waiters // the tries that were sent before the release, and executed before it
	require.LessOrEqual(t, scripts, 2*waiters+1+early+polls, "an acquire and a release each, and a poll now and then")
	f.awaitFree()
}

// P6: one message admits all readers, also those of one session, and readers do not wait for writers of
// their session.
func TestOneMessageAdmitsAllReaders(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u, other := f.join(f.server), f.join(f.server)
	first := other.acquire(writes)
	writer := u.startAcquire(t.Context(), writes)
	var waits [10]<-chan outcome
	for n := range waits {
		waits[n] = u.startAcquire(t.Context(), reads)
	}
	f.awaitListeners(1)
	f.server.MustDo(t, "EVAL", scripts.Load("redisson/rwlock-downgrade", 1).Source, 1, "a", first.Name(), "", "PUBLISH", channel)
	readers := make([]interface {
		Release(context.Context, wire.Stamp, time.Duration) (bool, error)
	}, len(waits))
	for n := range waits {
		readers[n] = f.receiveHold(waits[n])
	}
	require.Empty(t, writer)
	for _, r := range readers {
		_, err := r.Release(t.Context(), 0, lease)
		require.NoError(t, err)
	}
	f.release(first)
	f.release(f.receiveHold(writer))
	f.awaitFree()
}
