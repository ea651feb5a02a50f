// SPDX-License-Identifier: Apache-2.0

package servers_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// The rights that only WithReplicas takes.
var (
	forCopies           = []string{"+wait"}
	forCopiesInACluster = []string{"+wait", "+discard", "+unsubscribe", "+punsubscribe", "+sunsubscribe"}
)

// usual returns the error of a step if nothing is denied.
func (f *rightsFixture) usual(s workStep) error {
	switch {
	case s == try:
		return signalbox.ErrHeld
	case s == leaseError:
		return signalbox.ErrLost
	case s == copies && len(f.data) == 1:
		return signalbox.ErrNotReplicated
	}
	return nil
}

// everything demands that all steps were taken and ended as usual.
func (f *rightsFixture) everything(t *testing.T) {
	t.Helper()
	steps := []workStep{lockStep, enter, try, holder, isLocked, renew, unlock, waitStep, leave, force, leaseError, copies}
	if _, ok := f.kind.newLock(f.a, f.plain()).(queuedLock); ok {
		steps = append(steps, waiters)
	}
	ended := f.work(t)
	for _, s := range steps {
		require.Contains(t, ended, s)
	}
	for s, err := range ended {
		ends(t, s, err, f.usual(s))
	}
	if _, ok := ended[waiters]; ok {
		require.Equal(t, "b", f.last)
	}
}

// ends demands that a step ended with a certain error, or with none. What a busy machine has not confirmed within a second,
// though nothing was denied, is done in the background: clean demands that.
func ends(t *testing.T, s workStep, err, want error) {
	t.Helper()
	late := (s == unlock || s == leave) && errors.Is(err, signalbox.ErrUnconfirmed) && !errors.Is(err, signalbox.ErrDenied)
	switch {
	case want != nil:
		assert.ErrorIs(t, err, want, s)
	case !late:
		assert.NoError(t, err, s)
	}
}

// P10: locks of every kind work under the rights of the page, on one server, behind sentinels and in a cluster,
// also after a failover, and nothing that is tried is denied.
func TestTheRightsOfThePageAreEnough(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, later)
	t.Run("OneServer", func(t *testing.T) {
		t.Parallel()
		s := newServers(t, redistest.Start(t))
		s.areEnough(t, users(t)[oneServer], forCopies, func() {})
	})
	t.Run("BehindSentinels", func(t *testing.T) {
		t.Parallel()
		topology := redistest.StartSentinel(t, redistest.WithFailoverAfter(failoverAfter))
		s := newServers(t, topology)
		s.areEnough(t, users(t)[behindSentinels], forCopies, func() {
			topology.HandOver(t)
			topology.AwaitReady(t)
		})
	})
	t.Run("Cluster", func(t *testing.T) {
		t.Parallel()
		nodes := redistest.StartCluster(t, redistest.WithFailoverAfter(failoverAfter))
		s := newServers(t, nodes)
		s.areEnough(t, users(t)[inCluster], forCopiesInACluster, func() {
			nodes.HandOver(t, nodes.Slot(t, locktest.Key("reentrant plain")))
			nodes.AwaitReady(t)
		})
	})
}

// areEnough works with locks of every kind under these rights, and more of them for copies, before and after another server takes
// over.
func (s *servers) areEnough(t *testing.T, rights, more []string, failOver func()) {
	t.Helper()
	const others = "others"
	s.allow(t, others, rights)
	s.permits(t, others)
	s.latch(t, others)
	require.Empty(t, s.denials(t, others))
	rights = append(rights, more...)
	var fixtures []*rightsFixture
	for _, k := range rightsKinds() {
		fixtures = append(fixtures, s.newFixture(t, k, k.name, rights))
	}
	each := func(name string, run func(t *testing.T, f *rightsFixture)) {
		t.Run(name, func(t *testing.T) {
			for _, f := range fixtures {
				t.Run(f.kind.name, func(t *testing.T) {
					t.Parallel()
					run(t, f)
				})
			}
		})
	}
	each("AtFirst", func(t *testing.T, f *rightsFixture) {
		f.everything(t)
		for line := range strings.Lines(f.secrets.Recorded()) {
			if strings.Contains(line, "level=") {
				require.Contains(t, line, "a lease was lost before it was unlocked", "what ForceUnlock ends is logged, and nothing else")
			}
		}
	})
	failOver()
	for _, f := range fixtures {
		f.follow(t)
	}
	each("AfterAFailover", func(t *testing.T, f *rightsFixture) {
		f.everything(t)
		require.NoError(t, f.close())
		f.clean(t)
		require.Empty(t, f.denials(t, f.name))
	})
}

// follow waits until both sessions have found the new primary: a TryLock does not wait for that.
func (f *rightsFixture) follow(t *testing.T) {
	t.Helper()
	for _, s := range []*signalbox.Session{f.a, f.b} {
		lock := f.kind.newLock(s, f.kept(), signalbox.WithRenewedLease(rightsLease))
		redistest.Await(t, "a server that grants", func() bool {
			lease, err := lock.TryLock(locktest.Context(t))
			return f.secrets.RecordError(err) == nil && f.secrets.RecordError(lease.Unlock()) == nil
		})
	}
}

// P10: a call that follows a slot on the move gets through under the rights of the page, and without that to ASKING
// when the move is over. What needs several keys waits for that anyway.
func TestASlotOnTheMoveTakesTheRightToAsk(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "the nodes of a cluster serve two seconds after their start")
	nodes := redistest.StartCluster(t, redistest.WithFailoverAfter(failoverAfter))
	s, all := newServers(t, nodes), users(t)[inCluster]
	for _, k := range rightsKinds() {
		with := s.newFixture(t, k, k.name, all)
		without := s.newFixture(t, k, k.name+"-without", slices.DeleteFunc(slices.Clone(all), func(r string) bool { return r == "+asking" }))
		slot := nodes.Slot(t, locktest.Key(with.plain()))
		move := nodes.BeginMove(t, slot, nodes.Owner(t, (slot+redistest.Slots/2)%redistest.Slots))

		_, err := k.newLock(with.a, with.plain()).Holder(locktest.Context(t))
		require.ErrorIs(t, with.secrets.RecordError(err), signalbox.ErrNotHeld)
		waited := make(chan error, 1)
		ctx := locktest.Context(t)
		go func() {
			_, err := k.newLock(without.a, with.plain()).Holder(ctx)
			waited <- without.secrets.RecordError(err)
		}()
		redistest.Await(t, "a denial", func() bool { return len(without.denials(t, without.name)) > 0 })
		require.Empty(t, waited)
		move.Finish(t)
		require.ErrorIs(t, <-waited, signalbox.ErrNotHeld)
		require.Equal(t, []string{"command asking"}, slices.Compact(without.denials(t, without.name)))
		require.Empty(t, with.denials(t, with.name))
	}
}
