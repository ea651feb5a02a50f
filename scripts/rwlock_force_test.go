// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// receivesForced listens for the messages to a session about its forced holds.
func (r *rwlock) receivesForced(session string) *listener {
	r.Helper()
	return r.listenTo(r.notified() + ":" + session)
}

func TestAForcedRWLockIsHandedOverAndHoldersAreNotified(t *testing.T) {
	t.Parallel()
	r := newRWLock(t)
	r.has(ours, reads)
	r.has(nth("a", 5), reads)
	r.has(theirs, reads)
	r.queues(holdOf("w"), writes)
	we, they, writer := r.receivesForced(we), r.receivesForced(they), r.listens(session("w"))
	require.Equal(t, int64(3), r.forces(ours, theirs, nth("a", 5)))
	r.requireHave(writes, holdOf("w"))
	require.Equal(t, []string{r.key}, we.received(), "once, though it had two")
	require.Equal(t, []string{r.key}, they.received())
	require.Equal(t, []string{grantOf(holdOf("w"), noon+3, 1)}, writer.received())
}

// P5, P8: it takes the lock from the holds that were found, and from no others.
func TestAForceOfAReadWriteLockTouchesTheHoldsThatItNamesOnly(t *testing.T) {
	t.Parallel()
	r := newRWLock(t)
	r.has(ours, reads)
	r.has(nth("a", 5), reads)
	r.queues(holdOf("w"), writes)
	we := r.receivesForced(we)
	require.Equal(t, int64(1), r.forces(ours, theirs))
	r.requireHave(reads, nth("a", 5))
	require.Len(t, we.received(), 1)
	unchanged := r.unchanged()
	require.Equal(t, int64(0), r.forces(ours, theirs, holdOf("w")), "sent again; and one that waits has no hold")
	unchanged()
	require.Empty(t, we.received())
}
