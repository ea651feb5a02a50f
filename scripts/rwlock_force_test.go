// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// receivesForced listens for the messages to a session about its forced holds.
func (p *rwlock) receivesForced(session string) *listener {
	p.Helper()
	return p.listenTo(p.notified() + ":" + session)
}

func TestAForcedRWLockIsHandedOverAndHoldersAreNotified(t *testing.T) {
	t.Parallel()
	p := newRWLock(t)
	p.has(ours, reads)
	p.has(nth("a", 5), reads)
	p.has(theirs, reads)
	p.queues(holdOf("w"), writes)
	we, they, writer := p.receivesForced(we), p.receivesForced(they), p.listens(session("w"))
	require.Equal(t, int64(3), p.forces(ours, theirs, nth("a", 5)))
	p.requireHave(writes, holdOf("w"))
	require.Equal(t, []string{p.key}, we.received(), "once, though it had two")
	require.Equal(t, []string{p.key}, they.received())
	require.Equal(t, []string{grantOf(holdOf("w"), noon+3, 1)}, writer.received())
}

// P5, P8: it takes the lock from the holds that were found, and from no others.
func TestAForceOfAReadWriteLockTouchesTheHoldsThatItNamesOnly(t *testing.T) {
	t.Parallel()
	p := newRWLock(t)
	p.has(ours, reads)
	p.has(nth("a", 5), reads)
	p.queues(holdOf("w"), writes)
	we := p.receivesForced(we)
	require.Equal(t, int64(1), p.forces(ours, theirs))
	p.requireHave(reads, nth("a", 5))
	require.Len(t, we.received(), 1)
	unchanged := p.unchanged()
	require.Equal(t, int64(0), p.forces(ours, theirs, holdOf("w")), "sent again; and one that waits has no hold")
	unchanged()
	require.Empty(t, we.received())
}
