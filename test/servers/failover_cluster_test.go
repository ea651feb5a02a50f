// SPDX-License-Identifier: Apache-2.0

package servers_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// slotOf returns the slot of a key, without a call.
func slotOf(t *testing.T, c *redistest.Cluster) func(key string) int {
	t.Helper()
	client := c.Client(t, signalbox.Tune)
	return func(key string) int {
		command := client.B().Get().Key(key).Build()
		return int(command.Slot() % redistest.Slots)
	}
}

// firstNode returns the node that has the first slot, and which keys are its own.
func firstNode(t *testing.T, c *redistest.Cluster) (*redistest.Server, func(key string) bool) {
	t.Helper()
	slot := slotOf(t, c)
	// The slots are in three parts, and nothing moved yet.
	return c.Owner(t, 0), func(key string) bool { return slot(key) < redistest.Slots/3-1 }
}

// P1, P2, P3, P6: the node of a lock dies while it is held and waited for. Holds that its replica had
// continue, renewals and channels go to the replica, and no other caller gets the lock.
func TestALockOutlivesANodeThatDies(t *testing.T) {
	t.Parallel()
	outlive(t, (*redistest.Server).Kill, (*redistest.Server).Restart)
}

// P1, P2, P3, P6: the same with a node that stops: its connections stay open without replies.
func TestALockOutlivesANodeThatStops(t *testing.T) {
	t.Parallel()
	outlive(t, (*redistest.Server).Freeze, (*redistest.Server).Thaw)
}

func outlive(t *testing.T, fail, mend func(*redistest.Server)) {
	t.Helper()
	c := cluster(t)
	node, good := firstNode(t, c)
	replica := c.Replica(t, 0)
	all := failoverFixtures(t, c, good)
	held, waiters := make([]signalbox.Lease, len(all)), make([][]*lockCall, len(all))
	for i, f := range all {
		held[i] = f.mustLock(f.lock(f.session(), signalbox.WithRenewedLease(failoverLease)))
		waiters[i] = []*lockCall{f.wait(ended(t, wait)), f.wait(ended(t, wait))}
	}
	node.AwaitCopied(t, replica)

	fail(node)
	results := followAll(held, failoverLease)
	require.Equal(t, replica, c.AwaitFailover(t, 0, node))
	for i, f := range all {
		f.mustEnd(held[i], <-results[i], replica)
		for _, l := range waiters[i] {
			l.handOff()
		}
		for _, l := range waiters[i] {
			l.mustHandOn()
		}
	}
	for _, f := range all {
		f.stopped = node
		f.mustReceive()
		f.holders.mustBeTrue(t)
	}
	mend(node)
	c.AwaitReady(t)
	for _, f := range all {
		f.stopped = nil
		f.mustRest()
	}
}

// P1, P2, P3: a replica takes over as its operators ask, which costs no write. Nothing is lost.
func TestAnOrderlyFailoverLosesNothing(t *testing.T) {
	t.Parallel()
	c := cluster(t, redistest.WithFailoverAfter(time.Minute))
	_, good := firstNode(t, c)
	replica := c.Replica(t, 0)
	all, busy := failoverFixtures(t, c, good), failoverFixtures(t, c, good)
	var held []signalbox.Lease
	var waiters []*lockCall
	var crowds []*workload
	for i, f := range all {
		held = append(held, f.mustLock(f.lock(f.session(), signalbox.WithRenewedLease(failoverLease), signalbox.WithFirstLease(failoverLease))))
		waiters = append(waiters, f.wait(ended(t, wait)))
		busy[i].rename("busy", good)
		busy[i].strict = true
		crowds = append(crowds, busy[i].load())
	}
	results := followAll(held, failoverLease)
	_, owner := c.HandOver(t, 0)
	require.Equal(t, replica, owner)
	for i, f := range all {
		require.NoError(t, <-results[i], f.kind.Name)
		busy[i].awaitTurns(50)
		crowds[i].end()
		f.mustUnlock(held[i])
		waiters[i].mustGet()
		f.mustUnlock(waiters[i].lease)
		f.holders.mustBeTrue(t)
		busy[i].holders.mustBeTrue(t)
		f.mustReceive()
	}
	for i, f := range all {
		f.mustRest()
		busy[i].mustRest()
	}
}

// P2, P10: a part of a cluster is away, and so the cluster is down for all. A Lock waits within its context
// and returns what it met, a TryLock returns that at once, and both work again when the cluster does.
func TestLocksWaitForAClusterThatIsDown(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	node, near := firstNode(t, c)
	replica := c.Replica(t, 0)
	all := failoverFixtures(t, c, func(key string) bool { return !near(key) })
	const long = 5 * time.Minute
	var held []signalbox.Lease
	var sessions []*signalbox.Session
	for _, f := range all {
		held = append(held, f.mustLock(f.lock(f.session(), signalbox.WithRenewedLease(long), signalbox.WithFirstLease(long))))
		sessions = append(sessions, f.session())
	}
	replica.Freeze()
	node.Freeze()
	waiting := make([]chan error, len(all))
	locktest.Together(t, len(all), func(i int) error {
		f := all[i]
		if !redistest.PollUntil(redistest.Patience, func() bool {
			lease, err := f.lock(sessions[i]).TryLock(locktest.Context(t))
			return errors.Is(lease.Err(), signalbox.ErrNotHeld) && err != nil && strings.Contains(err.Error(), "CLUSTERDOWN")
		}) {
			return fmt.Errorf("%s: not refused", f.kind.Name)
		}
		_, err := f.lock(sessions[i]).Lock(ended(t, moment))
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "CLUSTERDOWN") {
			return fmt.Errorf("%s: Lock: %w", f.kind.Name, err)
		}
		if err := held[i].Err(); err != nil {
			return err
		}
		waiting[i] = make(chan error, 1)
		f.holders.leave(held[i])
		if err := held[i].Unlock(); !errors.Is(err, signalbox.ErrUnconfirmed) {
			return fmt.Errorf("%s: Unlock: %w", f.kind.Name, err)
		}
		go func() { waiting[i] <- f.pass(ended(t, long), f.lock(sessions[i])) }()
		return nil
	})
	node.Thaw()
	replica.Thaw()
	for i, f := range all {
		require.NoError(t, <-waiting[i], f.kind.Name)
		f.holders.mustBeTrue(t)
	}
	c.AwaitReady(t)
	for _, f := range all {
		f.mustReceive()
	}
	for _, f := range all { // their channels linger together
		f.mustRest()
	}
}
