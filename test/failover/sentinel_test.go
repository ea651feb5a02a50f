// SPDX-License-Identifier: Apache-2.0

package failover_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// P1, P2, P3: the primary dies while locks are held. What its replica had is held on.
func TestAHoldOutlivesItsPrimary(t *testing.T) {
	t.Parallel()
	s := sentinels(t)
	primary := s.Primary(t)
	all := fixtures(t, s, anyKey)
	var held []signalbox.Lease
	for _, f := range all {
		held = append(held, f.mustLock(f.lock(f.session(), signalbox.WithRenewedLease(life))))
	}
	primary.AwaitCopied(t, s.Replica(t))

	fault := time.Now()
	primary.Kill()
	results := followAll(held, life)
	promoted := s.AwaitFailover(t, primary)
	t.Logf("failover: %v", time.Since(fault))
	for i, f := range all {
		o := <-results[i]
		t.Logf("%s: renewals continue after %v (lost: %v)", f.kind.Name, o.took, o.lost)
		f.mustEnd(held[i], o, promoted)
		f.mustReceive()
		f.holders.mustBeTrue(t)
	}
	for _, f := range all {
		f.mustRest()
	}
}

// P2, P3: what the replica never had is lost, and reported, and the next holder's token is greater.
func TestAHoldThatTheReplicaNeverHadIsReportedLost(t *testing.T) {
	t.Parallel()
	s := sentinels(t)
	primary := s.Primary(t)
	all := fixtures(t, s, anyKey)
	for _, f := range all { // the floor of the tokens, which the replica has
		f.mustUnlock(f.mustLock(f.lock(f.session())))
	}
	primary.AwaitCopied(t, s.Replica(t))
	// From here to Kill every second counts: sentinels promote no replica that lost its link ten seconds before they missed the
	// primary. So the sessions have their connections already.
	primary.MustDo(t, "ACL", "SETUSER", "default", "-psync", "-sync", "-replconf")
	primary.MustDo(t, "CLIENT", "KILL", "TYPE", "replica")
	var held []signalbox.Lease
	for _, f := range all {
		held = append(held, f.mustLock(f.lock(f.sessions[0], signalbox.WithRenewedLease(life))))
	}
	primary.Kill()
	results := followAll(held, life)
	promoted := s.AwaitFailover(t, primary)
	for i, f := range all {
		require.False(t, f.held(promoted))
		o := <-results[i]
		t.Logf("%s: the loss is reported after %v", f.kind.Name, o.took)
		require.ErrorIs(t, o.lost, signalbox.ErrLost)
		f.holders.leave(held[i])
		f.mustUnlock(f.mustLock(f.lock(f.session())))
		f.holders.mustBeTrue(t)
	}
	for _, f := range all {
		f.mustRest()
	}
}

// P4, P6: the primary dies under waiters and under many clients that alternate, some of which are just
// acquiring, or releasing.
func TestWaitersOutliveTheirPrimary(t *testing.T) {
	t.Parallel()
	s := sentinels(t)
	primary := s.Primary(t)
	all := fixtures(t, s, anyKey)
	var crowds []*workload
	for _, f := range all {
		crowds = append(crowds, f.load())
	}
	fault := time.Now()
	primary.Kill()
	s.AwaitFailover(t, primary)
	t.Logf("failover: %v", time.Since(fault))
	for _, f := range all {
		f.awaitTurns(50)
	}
	for i, f := range all {
		crowds[i].end()
		longest, after := f.holders.pause(fault)
		t.Logf("%s: no grant for %v, %d after it", f.kind.Name, longest, after)
		t.Logf("%s: %d overlaps", f.kind.Name, f.holders.mustShowLater(t))
		f.mustReceive()
	}
	for _, f := range all {
		f.mustRest()
	}
}

// P4, P5: a lock is released at a primary that is about to die. The caller gets an unknown outcome, and the
// lock is released at the new primary, before its key would end.
func TestAnUnlockIsResolvedAtTheNewPrimary(t *testing.T) {
	t.Parallel()
	const long = time.Minute
	s := sentinels(t)
	primary := s.Primary(t)
	all := fixtures(t, s, anyKey)
	var held []signalbox.Lease
	for _, f := range all {
		held = append(held, f.mustLock(f.lock(f.session(), signalbox.WithRenewedLease(long), signalbox.WithFirstLease(long))))
	}
	primary.AwaitCopied(t, s.Replica(t))
	var waiters []*lockCall
	for _, f := range all {
		waiters = append(waiters, f.wait(ended(t, long)))
	}
	fault := time.Now()
	primary.Freeze()
	locktest.Together(t, len(all), func(i int) error {
		all[i].holders.leave(held[i])
		err := held[i].Unlock()
		require.ErrorIs(t, err, signalbox.ErrUnconfirmed)
		t.Logf("%s: after %v: %v", all[i].kind.Name, time.Since(fault), err)
		return nil
	})
	primary.Kill()
	s.AwaitFailover(t, primary)
	t.Logf("failover: %v", time.Since(fault))
	for i, f := range all {
		waiters[i].mustGet()
		t.Logf("%s: a waiter has it after %v", f.kind.Name, waiters[i].at.Sub(fault))
		f.mustUnlock(waiters[i].lease)
		f.holders.mustBeTrue(t)
	}
	for _, f := range all {
		f.mustRest()
	}
}

// P1, P3, P6: a primary is stopped, replaced, and continues. Its waiters move to the new one, with their
// channel, and so do holders.
func TestEveryClientLeavesAStoppedPrimary(t *testing.T) {
	t.Parallel()
	s := sentinels(t)
	old := s.Primary(t)
	all := fixtures(t, s, anyKey)
	var held []signalbox.Lease
	var waiters []*lockCall
	var crowds []*workload
	busy := fixtures(t, s, anyKey)
	for i, f := range all {
		held = append(held, f.mustLock(f.lock(f.session(), signalbox.WithRenewedLease(life))))
		waiters = append(waiters, f.wait(ended(t, wait)))
		busy[i].rename("busy", anyKey)
		crowds = append(crowds, busy[i].load())
	}
	old.AwaitCopied(t, s.Replica(t))

	fault := time.Now()
	old.Freeze()
	results := followAll(held, life)
	now := s.AwaitFailover(t, old)
	t.Logf("failover: %v", time.Since(fault))
	for i, f := range all {
		o := <-results[i]
		t.Logf("%s: renewals continue after %v (lost: %v)", f.kind.Name, o.took, o.lost)
		redistest.Await(t, "a listener at the new primary", func() bool {
			return len(f.listenersAt(now)) > 0
		})
		t.Logf("%s: waiters listen at the new primary after %v", f.kind.Name, time.Since(fault))
		busy[i].awaitTurns(20)
	}
	thawed := time.Now()
	old.Thaw()
	for i, f := range all {
		busy[i].awaitTurns(100)
		redistest.Await(t, "no subscribers at the old primary", func() bool { return len(f.listenersAt(old)) == 0 })
		f.holders.leave(held[i])
		_ = held[i].Unlock()
		waiters[i].mustGet()
		f.mustUnlock(waiters[i].lease)
	}
	s.AwaitReady(t)
	t.Logf("the old primary is a replica %v after it went on", time.Since(thawed))
	for i, f := range all {
		crowds[i].end()
		longest, after := busy[i].holders.pause(fault)
		t.Logf("%s: no grant for %v, %d after it", f.kind.Name, longest, after)
		t.Logf("%s: %d overlaps", f.kind.Name, busy[i].holders.mustShowLater(t))
		f.holders.mustBeTrue(t)
		f.mustReceive()
	}
	for i, f := range all {
		f.mustRest()
		busy[i].mustRest()
	}
}

// P6: the sentinels' message about the new primary is lost. A client asks them all the same, see Tune.
func TestALostSwitchIsFoundOut(t *testing.T) {
	t.Parallel()
	s := sentinels(t)
	primary := s.Primary(t)
	silent := redistest.NewProxy(t, s.Sentinels()[0].Addr())
	all := fixtures(t, proxiedSentinels{s, silent}, anyKey)
	for _, f := range all {
		f.mustUnlock(f.mustLock(f.lock(f.session())))
	}
	silent.DropPushes(true)
	primary.Kill()
	s.AwaitFailover(t, primary)
	fault := time.Now()
	for _, f := range all {
		require.NoError(t, f.pass(ended(t, wait), f.lock(f.sessions[0])))
		t.Logf("%s: a grant %v after the failover", f.kind.Name, time.Since(fault))
		f.holders.mustBeTrue(t)
	}
}

// proxiedSentinels is sentinels of which clients know one, through a proxy.
type proxiedSentinels struct {
	*redistest.Sentinel

	proxy *redistest.Proxy
}

// Client implements redistest.Topology.
func (p proxiedSentinels) Client(tb testing.TB, mod func(*rueidis.ClientOption)) rueidis.Client {
	tb.Helper()
	return p.Sentinel.Client(tb, func(o *rueidis.ClientOption) {
		mod(o)
		o.InitAddress = []string{p.proxy.Addr()}
	})
}

// P1, P2, P3: operators switch to another primary while all are well. Until the old one learns of it, it
// grants holds that will be lost: their holders learn that, and tokens show which came later.
func TestLocksFollowAnOrderlySwitch(t *testing.T) {
	t.Parallel()
	s := sentinels(t)
	old := s.Primary(t)
	all, busy := fixtures(t, s, anyKey), fixtures(t, s, anyKey)
	var held []signalbox.Lease
	var crowds []*workload
	for i, f := range all {
		held = append(held, f.mustLock(f.lock(f.session(), signalbox.WithRenewedLease(life), signalbox.WithFirstLease(life))))
		busy[i].rename("busy", anyKey)
		crowds = append(crowds, busy[i].load())
	}
	old.AwaitCopied(t, s.Replica(t))
	fault := time.Now()
	now := switchOver(t, s, old)
	t.Logf("failover: %v", time.Since(fault))
	s.AwaitReady(t) // until the old one learns its new role, it replies to renewals that will be lost
	results := followAll(held, life)
	for i, f := range all {
		o := <-results[i]
		t.Logf("%s: renewals continue after %v (lost: %v)", f.kind.Name, o.took, o.lost)
		f.mustEnd(held[i], o, now)
		f.holders.mustBeTrue(t)
		busy[i].awaitTurns(50)
		crowds[i].end()
		longest, after := busy[i].holders.pause(fault)
		t.Logf("%s: no grant for %v, %d after it, %d overlaps", f.kind.Name, longest, after, busy[i].holders.mustShowLater(t))
	}
	for _, f := range all {
		f.mustReceive()
	}
	for i, f := range all {
		f.mustRest()
		busy[i].mustRest()
	}
}

// P3: a primary that was stopped and replaced continues, and a client asks it that does not know the new one.
// What it grants is lost and reported; tokens show which came later.
func TestWhatAnOldPrimaryGrantsIsReportedLost(t *testing.T) {
	t.Parallel()
	s := sentinels(t)
	old := s.Primary(t)
	all := fixtures(t, s, anyKey)
	var strays []*signalbox.Session
	for _, f := range all {
		f.mustUnlock(f.mustLock(f.lock(f.session())))
		strays = append(strays, locktest.Session(t, tunedTopology{old}))
	}
	old.Freeze()
	s.AwaitFailover(t, old)
	var held []signalbox.Lease
	for _, f := range all {
		held = append(held, f.mustLock(f.lock(f.session(), signalbox.WithRenewedLease(life))))
	}
	old.Thaw()
	locktest.Together(t, len(all), func(i int) error {
		f := all[i]
		before := f.holders.last()
		lease, err := f.lock(strays[i], signalbox.WithRenewedLease(life)).TryLock(locktest.Context(t))
		if err != nil {
			t.Logf("%s: the old primary: %v", f.kind.Name, err)
			return nil
		}
		f.holders.enter(lease, before)
		defer f.holders.leave(lease)
		granted := time.Now()
		redistest.PollUntil(life+redistest.Patience, func() bool { return lease.Err() != nil }) // renewed until the old one knows
		if !errors.Is(lease.Err(), signalbox.ErrLost) {
			return fmt.Errorf("%s: held on at a primary that is none: %w", f.kind.Name, lease.Err())
		}
		t.Logf("%s: the old primary granted it; the loss is reported after %v", f.kind.Name, time.Since(granted))
		return nil
	})
	s.AwaitReady(t)
	for i, f := range all {
		f.mustUnlock(held[i])
		f.mustUnlock(f.mustLock(f.lock(f.sessions[0])))
		t.Logf("%s: %d overlaps", f.kind.Name, f.holders.mustShowLater(t))
	}
	for _, f := range all {
		f.mustRest()
	}
}

// P1: with min-replicas-to-write a primary without its replica grants nothing: neither the old one nor, until
// the old one follows it, the new one. No holds overlap, and the refusal has a name.
func TestMinReplicasKeepAnOldPrimaryFromGranting(t *testing.T) {
	t.Parallel()
	s := sentinels(t,
		redistest.WithArgs("--min-replicas-to-write", "1", "--min-replicas-max-lag", "2"))
	old := s.Primary(t)
	all := fixtures(t, s, anyKey)
	var strays []*signalbox.Session
	for _, f := range all {
		f.mustUnlock(f.mustLock(f.lock(f.session())))
		strays = append(strays, locktest.Session(t, tunedTopology{old}))
	}
	fault := time.Now()
	old.Freeze()
	s.AwaitFailover(t, old)
	t.Logf("failover: %v", time.Since(fault))
	waiting := make([]chan error, len(all))
	locktest.Together(t, len(all), func(i int) error {
		f := all[i]
		var err error
		if !redistest.PollUntil(2*redistest.Patience, func() bool { // some clients have to give the old one up first
			_, err = f.lock(f.sessions[0]).TryLock(ended(t, moment))
			return err != nil && strings.Contains(err.Error(), "NOREPLICAS")
		}) {
			return fmt.Errorf("%s: not refused, but: %w", f.kind.Name, err)
		}
		_, err = f.lock(f.sessions[0]).Lock(ended(t, moment))
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "NOREPLICAS") {
			return fmt.Errorf("%s: Lock: %w", f.kind.Name, err)
		}
		waiting[i] = make(chan error, 1)
		go func() { waiting[i] <- f.pass(ended(t, wait), f.lock(f.sessions[0])) }()
		return nil
	})
	thawed := time.Now()
	old.Thaw()
	locktest.Together(t, len(all), func(i int) error {
		f := all[i]
		before := f.holders.last()
		lease, err := f.lock(strays[i]).TryLock(locktest.Context(t))
		t.Logf("%s: the old primary: %v", f.kind.Name, err)
		if err == nil {
			f.holders.enter(lease, before)
			f.holders.leave(lease)
			_ = lease.Unlock()
		}
		return nil
	})
	for i, f := range all {
		require.NoError(t, <-waiting[i])
		t.Logf("%s: granted again %v after the old primary went on", f.kind.Name, time.Since(thawed))
		f.holders.mustBeTrue(t)
	}
	for _, f := range all {
		f.mustRest()
	}
}
