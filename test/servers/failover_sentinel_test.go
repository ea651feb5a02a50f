// SPDX-License-Identifier: Apache-2.0

package servers_test

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

// P2, P3: what the replica never had is lost, and reported, and the next holder's token is greater.
func TestAHoldThatTheReplicaNeverHadIsReportedLost(t *testing.T) {
	t.Parallel()
	s := sentinels(t)
	primary := s.Primary(t)
	all := failoverFixtures(t, s, anyKey)
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
		held = append(held, f.mustLock(f.lock(f.sessions[0], signalbox.WithRenewedLease(failoverLease))))
	}
	primary.Kill()
	results := followAll(held, failoverLease)
	promoted := s.AwaitFailover(t, primary)
	for i, f := range all {
		require.False(t, f.held(promoted))
		require.ErrorIs(t, <-results[i], signalbox.ErrLost)
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
	all := failoverFixtures(t, s, anyKey)
	var crowds []*workload
	for _, f := range all {
		crowds = append(crowds, f.load())
	}
	primary.Kill()
	s.AwaitFailover(t, primary)
	for _, f := range all {
		f.awaitTurns(50)
	}
	for i, f := range all {
		crowds[i].end()
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
	all := failoverFixtures(t, s, anyKey)
	var held []signalbox.Lease
	for _, f := range all {
		held = append(held, f.mustLock(f.lock(f.session(), signalbox.WithRenewedLease(long), signalbox.WithFirstLease(long))))
	}
	primary.AwaitCopied(t, s.Replica(t))
	var waiters []*lockCall
	for _, f := range all {
		waiters = append(waiters, f.wait(ended(t, long)))
	}
	primary.Freeze()
	locktest.Together(t, len(all), func(i int) error {
		all[i].holders.leave(held[i])
		err := held[i].Unlock()
		require.ErrorIs(t, err, signalbox.ErrUnconfirmed)
		return nil
	})
	primary.Kill()
	s.AwaitFailover(t, primary)
	for i, f := range all {
		waiters[i].mustGet()
		f.mustUnlock(waiters[i].lease)
		f.holders.mustBeTrue(t)
	}
	for _, f := range all {
		f.mustRest()
	}
}

// P1, P2, P3, P6: a primary is stopped, replaced, and continues. Holds that its replica had continue, and waiters move to the new one
// with their channel.
func TestEveryClientLeavesAStoppedPrimary(t *testing.T) {
	t.Parallel()
	s := sentinels(t)
	old := s.Primary(t)
	all := failoverFixtures(t, s, anyKey)
	var held []signalbox.Lease
	var waiters []*lockCall
	var crowds []*workload
	busy := failoverFixtures(t, s, anyKey)
	for i, f := range all {
		held = append(held, f.mustLock(f.lock(f.session(), signalbox.WithRenewedLease(failoverLease))))
		waiters = append(waiters, f.wait(ended(t, wait)))
		busy[i].rename("busy", anyKey)
		crowds = append(crowds, busy[i].load())
	}
	old.AwaitCopied(t, s.Replica(t))

	old.Freeze()
	results := followAll(held, failoverLease)
	now := s.AwaitFailover(t, old)
	for i, f := range all {
		redistest.Await(t, "a listener at the new primary", func() bool {
			return len(f.listenersAt(now)) > 0
		})
		f.mustEnd(held[i], <-results[i], now)
		busy[i].awaitTurns(20)
	}
	old.Thaw()
	for i, f := range all {
		busy[i].awaitTurns(100)
		redistest.Await(t, "no subscribers at the old primary", func() bool { return len(f.listenersAt(old)) == 0 })
		waiters[i].mustGet()
		f.mustUnlock(waiters[i].lease)
	}
	s.AwaitReady(t)
	for i, f := range all {
		crowds[i].end()
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
	all := failoverFixtures(t, proxiedSentinels{s, silent}, anyKey)
	for _, f := range all {
		f.mustUnlock(f.mustLock(f.lock(f.session())))
	}
	silent.DropPushes(true)
	primary.Kill()
	s.AwaitFailover(t, primary)
	for _, f := range all {
		require.NoError(t, f.pass(ended(t, wait), f.lock(f.sessions[0])))
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

// P3: a primary that was stopped and replaced continues, and a client asks it that does not know the new one.
// What it grants is lost and reported; tokens show which came later.
func TestWhatAnOldPrimaryGrantsIsReportedLost(t *testing.T) {
	t.Parallel()
	s := sentinels(t)
	old := s.Primary(t)
	all := failoverFixtures(t, s, anyKey)
	var strays []*signalbox.Session
	for _, f := range all {
		f.mustUnlock(f.mustLock(f.lock(f.session())))
		strays = append(strays, locktest.Session(t, tunedTopology{old}))
	}
	old.Freeze()
	s.AwaitFailover(t, old)
	var held []signalbox.Lease
	for _, f := range all {
		held = append(held, f.mustLock(f.lock(f.session(), signalbox.WithRenewedLease(failoverLease))))
	}
	old.Thaw()
	locktest.Together(t, len(all), func(i int) error {
		f := all[i]
		before := f.holders.last()
		lease, err := f.lock(strays[i], signalbox.WithRenewedLease(failoverLease)).TryLock(locktest.Context(t))
		if err != nil {
			return nil
		}
		f.holders.enter(lease, before)
		defer f.holders.leave(lease)
		redistest.PollUntil(failoverLease+redistest.Patience, func() bool { return lease.Err() != nil }) // renewed until the old one knows
		if !errors.Is(lease.Err(), signalbox.ErrLost) {
			return fmt.Errorf("%s: held on at a primary that is none: %w", f.kind.Name, lease.Err())
		}
		return nil
	})
	s.AwaitReady(t)
	for i, f := range all {
		f.mustUnlock(held[i])
		f.mustUnlock(f.mustLock(f.lock(f.sessions[0])))
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
	all := failoverFixtures(t, s, anyKey)
	var strays []*signalbox.Session
	for _, f := range all {
		f.mustUnlock(f.mustLock(f.lock(f.session())))
		strays = append(strays, locktest.Session(t, tunedTopology{old}))
	}
	old.Freeze()
	s.AwaitFailover(t, old)
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
	old.Thaw()
	locktest.Together(t, len(all), func(i int) error {
		f := all[i]
		before := f.holders.last()
		lease, err := f.lock(strays[i]).TryLock(locktest.Context(t))
		if err == nil {
			f.holders.enter(lease, before)
			f.holders.leave(lease)
			_ = lease.Unlock()
		}
		return nil
	})
	for i, f := range all {
		require.NoError(t, <-waiting[i])
		f.holders.mustBeTrue(t)
	}
	for _, f := range all {
		f.mustRest()
	}
}
