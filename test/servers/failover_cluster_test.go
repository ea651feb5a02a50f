// SPDX-License-Identifier: Apache-2.0

package servers_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/countdown"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/multilock"
	"github.com/signalbox-go/signalbox/redisson"
	"github.com/signalbox-go/signalbox/reentrant"
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

// P1, P2, P3, P6: a slot is moved, step by step, with locks that are held, waited for, and acquired in turn.
// While keys are on both sides (ASK), and scripts with several keys are refused (TRYAGAIN), renewals continue
// and locks are released; when the move is over, waiters have their order and channels their listeners.
func TestLocksFollowTheirSlot(t *testing.T) {
	t.Parallel()
	const life = 9 * time.Second // renewed each three
	whole := []signalbox.LockOption{signalbox.WithRenewedLease(life), signalbox.WithFirstLease(life)}
	c := cluster(t, redistest.WithFailoverAfter(time.Minute))
	slot := slotOf(t, c)
	all := failoverFixtures(t, c, anyKey)
	moved := slot(all[0].key())
	inSlot := func(key string) bool { return slot(key) == moved }
	all, busy, lines := failoverFixtures(t, c, inSlot), failoverFixtures(t, c, inSlot), failoverFixtures(t, c, inSlot)
	from := c.Owner(t, moved)
	to := c.Owner(t, (moved+redistest.Slots/2)%redistest.Slots)

	var held, first []signalbox.Lease
	waiters := make([][]*lockCall, len(all))
	for i, f := range all {
		held = append(held, f.mustLock(f.lock(f.session(), whole...)))
		busy[i].rename("busy", inSlot)
		busy[i].strict = true
		lines[i].rename("line", inSlot)
		first = append(first, lines[i].mustLock(lines[i].lock(lines[i].session(), whole...)))
		for range 3 {
			l := lines[i].wait(ended(t, wait))
			l.handOff()
			waiters[i] = append(waiters[i], l)
		}
	}
	var crowds []*workload
	for i := range all {
		crowds = append(crowds, busy[i].load())
	}

	renewed := func(step string) {
		for i, results := range followAll(append(held, first...), life) {
			require.NoError(t, <-results, "%s: %s", step, all[i%len(all)].kind.Name)
		}
	}
	move := c.BeginMove(t, moved, to)
	renewed("open")
	for i := range all {
		move.Keys(t, all[i].key(), busy[i].key(), lines[i].kind.Queue(lines[i].name))
	}
	renewed("keys on both sides")
	gaveUp := time.Now()
	for i, f := range lines { // a line has to wait for the rest of its keys
		f.mustUnlock(first[i])
		first[i] = held[i]
	}
	move.Keys(t)
	renewed("all keys moved")
	for i, f := range all {
		f.mustUnlock(held[i])
	}
	move.Finish(t)
	for i, f := range lines {
		last := gaveUp
		for _, l := range waiters[i] {
			l.mustHandOn()
			if f.kind.Ordered() {
				require.True(t, l.at.After(last), "out of turn")
			}
			last = l.at
		}
		f.mustReceive()
		busy[i].awaitTurns(50)
		crowds[i].end()
	}
	for i, f := range all {
		redistest.Await(t, f.kind.Name+": no subscribers at the old node", func() bool { return len(f.listenersAt(from)) == 0 })
		for _, each := range []*failoverFixture{f, busy[i], lines[i]} {
			each.holders.mustBeTrue(t)
		}
	}
	for i := range all {
		for _, each := range []*failoverFixture{all[i], busy[i], lines[i]} {
			each.mustRest()
		}
	}
}

// P10: Redisson's keys for each reader are not among those that a script names, so while a slot moves a
// script may find out halfway that a key is away. Waiters still wait, releases are repeated, and nothing is
// left when the slot has moved.
func TestRedissonReadersContinueWhileTheSlotIsMoved(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "a cluster with a slot that moves, until retries find its keys")
	c := redistest.StartCluster(t, redistest.WithFailoverAfter(5*time.Minute))
	session := func() *signalbox.Session {
		return locktest.Session(t, c, signalbox.WithDefaults(signalbox.WithLayout(redisson.Layout()), signalbox.WithRenewedLease(time.Hour)))
	}
	slot := c.Slot(t, "a")
	from := c.Owner(t, slot)
	to := c.Owner(t, (slot+redistest.Slots/2)%redistest.Slots)
	lock := func() locktest.Lock { return locktest.Reader().New(session(), "a") }
	first, err := lock().Lock(locktest.Context(t))
	require.NoError(t, err)
	away := from.Keys("{a}:*")
	require.Len(t, away, 1)
	second, err := lock().Lock(locktest.Context(t))
	require.NoError(t, err)

	move := c.BeginMove(t, slot, to)
	_, err = lock().TryLock(locktest.Context(t))
	require.ErrorIs(t, err, signalbox.ErrRefused)
	waiting := locktest.LaterWith(locktest.Context(t), lock().Lock)
	move.Keys(t, away...)
	require.ErrorIs(t, first.Unlock(), signalbox.ErrUnconfirmed)
	require.Equal(t, int64(3), from.MustDo(t, "HLEN", "a"), "nothing is half done")
	require.Empty(t, waiting)

	move.Finish(t)
	third := locktest.MustHave(t, waiting)
	redistest.Await(t, "the first has gone, the others read", func() bool { return to.MustDo(t, "HLEN", "a") == int64(3) })
	require.NoError(t, second.Err())
	require.NoError(t, second.Unlock())
	require.NoError(t, third.Unlock())
	redistest.Await(t, "no key is left", func() bool { return to.MustDo(t, "CLUSTER", "COUNTKEYSINSLOT", slot) == int64(0) })
}

// clusterNames is a cluster, and a name in each of its three parts, in the order of slots.
type clusterNames struct {
	*redistest.Cluster

	names [3]string
	slots [3]int
}

func newTown(t *testing.T, options ...redistest.Option) *clusterNames {
	t.Helper()
	c := &clusterNames{Cluster: redistest.StartCluster(t, options...)}
	for found, i := 0, 0; found < len(c.names); i++ {
		name := fmt.Sprint("n", i)
		slot := c.Slot(t, locktest.Key(name))
		if part := min(slot/(redistest.Slots/3), 2); c.names[part] == "" {
			c.names[part], c.slots[part] = name, slot
			found++
		}
	}
	return c
}

func (c *clusterNames) members(s *signalbox.Session) []multilock.Member {
	return []multilock.Member{reentrant.New(s, c.names[2]), fair.New(s, c.names[1]), reentrant.New(s, c.names[0])}
}

// P1, P4: the same if the replica takes over: the call gets all members.
func TestAShardThatFailsOverBetweenTwoMembers(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "a replica takes over")
	c := newTown(t)
	// The members that are held outlast the failover, however long that takes.
	s, other := locktest.Session(t, c, signalbox.WithDefaults(signalbox.WithFirstLease(limit))), locktest.Session(t, c)
	dead := c.Owner(t, c.slots[2])
	warm, err := multilock.New(c.members(s)...).Lock(long(t))
	require.NoError(t, err)
	require.NoError(t, warm.Unlock())
	theirs, err := fair.New(other, c.names[1]).Lock(long(t))
	require.NoError(t, err)
	ctx, got := long(t), make(chan signalbox.Lease, 1)
	go func() {
		lease, err := multilock.New(c.members(s)...).Lock(ctx)
		if err != nil {
			t.Error(err)
		}
		got <- lease
	}()
	redistest.Await(t, "the first member", func() bool { return locked(t, reentrant.New(other, c.names[0])) })
	dead.Kill()
	if err := theirs.Unlock(); err != nil { // a cluster that misses a node refuses it, and it is released later
		require.ErrorIs(t, err, signalbox.ErrUnconfirmed)
	}
	lease := <-got
	require.NoError(t, lease.Err())
	c.AwaitFailover(t, c.slots[2], dead) // every node knows
	require.NoError(t, lease.Unlock())
	c.free(t, 0, 1, 2)
}

func locked(t *testing.T, l *reentrant.Lock) bool {
	t.Helper()
	is, err := l.IsLocked(long(t))
	require.NoError(t, err)
	return is
}

// free waits until the members of these parts are free, for less than a lease: by then they end by themselves.
func (c *clusterNames) free(t *testing.T, parts ...int) {
	t.Helper()
	s := locktest.Session(t, c)
	for _, i := range parts {
		redistest.Await(t, "a free lock", func() bool {
			is, err := reentrant.New(s, c.names[i]).IsLocked(long(t))
			return err == nil && !is
		})
	}
}

// calm is how long a node must be silent before its replica takes over: longer than any machine is
// busy, since nothing here is about failovers.
const calm = time.Minute

// P6: a slot that is moved while workers count and others wait loses no count and no waiter.
func TestARoundContinuesWhileItsSlotIsMoved(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "a slot that moves between the nodes of a cluster")
	cluster := redistest.StartCluster(t, redistest.WithFailoverAfter(calm))
	const name, rounds, n = "{moved} latch", 4, 300
	sessions := []*signalbox.Session{locktest.Session(t, cluster), locktest.Session(t, cluster), locktest.Session(t, cluster)}
	slot := cluster.Slot(t, locktest.Keys(name).Latch())
	for i := range rounds {
		ctx := long(t)
		r, err := countdown.New(sessions[i%3], name).Start(ctx, n+1)
		require.NoError(t, err)
		var waiters, workers sync.WaitGroup
		for _, s := range sessions {
			waiters.Go(func() {
				if err := countdown.New(s, name).RoundOf(r.ID()).Wait(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		moving := make(chan struct{})
		for w, s := range sessions {
			workers.Go(func() {
				<-moving
				for id := range n {
					if _, err := countdown.New(s, name).RoundOf(r.ID()).CountDown(ctx, fmt.Sprint((id+100*w)%n)); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		// Another primary than in the last round: each has a third of the slots.
		move := cluster.BeginMove(t, slot, cluster.Owner(t, (slot+(1+i%2)*redistest.Slots/3)%redistest.Slots))
		close(moving)
		if i%2 == 0 {
			move.Keys(t, locktest.Keys(name).Latch())
		}
		move.Finish(t)
		workers.Wait()
		left, err := r.CountDown(ctx, "the last")
		require.NoError(t, err)
		require.Zero(t, left, "every id counts once")
		waiters.Wait()
	}
}

// long is a context for what waits until servers, wires or other processes are there again.
func long(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	return ctx
}
