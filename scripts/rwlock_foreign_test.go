// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/scripts"
)

// P4: if a lock of another kind has the key, no ticket stays behind.
func TestATicketIsRemovedIfAnotherKindHasTheKey(t *testing.T) {
	t.Parallel()
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRWLock(t)
			r.has(theirs, writes)
			r.queues(ours, mode)
			r.set(lockSays(theirs+turnMode, noon, "q"), time.Minute)
			unchanged := r.untouched()
			require.Equal(t, []any{int64(2), digits(noon), "", int64(0)}, r.leaves(ours))
			require.Equal(t, []any{int64(0), digits(noon)}, r.leaves(ours))
			unchanged()
			require.Empty(t, r.inQueues())
		})
	}
}

// P8: what a hold of another kind still sends, once a read-write lock has the key, finds nothing of its own.
func TestWhatOtherKindsSendLeavesAReadWriteLockAlone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script *scripts.Script
		args   func(r *rwlock) []any
	}{
		"Leave": {scripts.LockLeave, func(r *rwlock) []any {
			return []any{ours + turnMode, we, "PUBLISH", r.grants, keepMS, digits(noon), "1"}
		}},
		"Free":         {scripts.LockFree, func(*rwlock) []any { return []any{ours + turnMode + "-", digits(noon), keepMS} }},
		"ReleaseMany":  {scripts.LockReleaseMany, func(*rwlock) []any { return []any{ours + turnMode, digits(noon), keepMS} }},
		"LockForce":    {scripts.LockForce, func(r *rwlock) []any { return []any{ours, "PUBLISH", r.grants, r.notified(), keepMS} }},
		"Vote":         {scripts.RedlockRelease, func(r *rwlock) []any { return []any{ours, digits(noon), "PUBLISH", r.channel, keepMS} }},
		"PollOfAVote":  {scripts.RedlockPoll, func(*rwlock) []any { return []any{we} }},
		"Renew":        {scripts.HolderRenew, func(*rwlock) []any { return []any{ours, lease} }},
		"RenewOfATurn": {scripts.HolderRenew, func(*rwlock) []any { return []any{ours + turnMode, lease} }},
		"Force":        {scripts.HolderForce, func(r *rwlock) []any { return []any{ours, "PUBLISH", r.channel, r.notified(), keepMS} }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRWLock(t)
			r.has(ours, writes)
			unchanged := r.unchanged()
			if _, err := r.try(c.script, c.args(r)...); err != nil {
				require.ErrorContains(t, err, "WRONGTYPE")
			}
			unchanged()
		})
	}
}
