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
			p := newRWLock(t)
			p.has(theirs, writes)
			p.queues(ours, mode)
			p.set(lockSays(theirs+turnMode, noon, "q"), time.Minute)
			unchanged := p.untouched()
			require.Equal(t, []any{int64(2), digits(noon), "", int64(0)}, p.leaves(ours))
			require.Equal(t, []any{int64(0), digits(noon)}, p.leaves(ours))
			unchanged()
			require.Empty(t, p.inQueues())
		})
	}
}

// P8: what a hold of another kind still sends, once a read-write lock has the key, finds nothing of its own.
func TestWhatOtherKindsSendLeavesAReadWriteLockAlone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script *scripts.Script
		args   func(p *rwlock) []any
	}{
		"Leave": {scripts.LockLeave, func(p *rwlock) []any {
			return []any{ours + turnMode, we, "PUBLISH", p.grants, keepMS, digits(noon), "1"}
		}},
		"Scatter":      {scripts.LockReleaseMany, func(*rwlock) []any { return []any{ours + turnMode, digits(noon), keepMS} }},
		"LockForce":    {scripts.LockForce, func(p *rwlock) []any { return []any{ours, "PUBLISH", p.grants, p.notified(), keepMS} }},
		"Vote":         {scripts.RedlockRelease, func(p *rwlock) []any { return []any{ours, digits(noon), "PUBLISH", p.channel, keepMS} }},
		"LookAtAVote":  {scripts.RedlockPoll, func(*rwlock) []any { return []any{we} }},
		"Renew":        {scripts.HolderRenew, func(*rwlock) []any { return []any{ours, lease} }},
		"RenewOfATurn": {scripts.HolderRenew, func(*rwlock) []any { return []any{ours + turnMode, lease} }},
		"Force":        {scripts.HolderForce, func(p *rwlock) []any { return []any{ours, "PUBLISH", p.channel, p.notified(), keepMS} }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newRWLock(t)
			p.has(ours, writes)
			unchanged := p.unchanged()
			if _, err := p.try(c.script, c.args(p)...); err != nil {
				require.ErrorContains(t, err, "WRONGTYPE")
			}
			unchanged()
		})
	}
}
