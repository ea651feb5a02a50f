// SPDX-License-Identifier: Apache-2.0

package acquire_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// P3, P8: a swap ends one lease and returns another with a later token, and only that one is left to release.
func TestSwapEndsOneLeaseAndBeginsAnother(t *testing.T) {
	t.Parallel()
	p := newServer(t)
	u := p.newUser()
	old := u.acquireAll()
	lease, err := u.swap(old)
	require.NoError(t, err)
	require.NoError(t, lease.Err())
	require.Greater(t, lease.Token(), old.Token())
	require.Equal(t, 1, p.holds())
	require.Error(t, old.Unlock())
	require.Equal(t, 1, p.holds(), "the old lease releases nothing")
	require.NoError(t, lease.Unlock())
	u.awaitIdle()
}

// Close waits for what replaced a hold as it would have waited for that.
func TestCloseWaitsForWhatWasSwapped(t *testing.T) {
	t.Parallel()
	p := newServer(t)
	u := p.newUser()
	lease, err := u.swap(u.acquireAll())
	require.NoError(t, err)
	closed, acquirer := make(chan error, 1), u.acquirerOf(1)
	go func() { closed <- u.session.Close(t.Context()) }()
	redistest.Await(t, "a session that closes", func() bool {
		early, err := acquirer.TryAcquire(t.Context())
		if err == nil {
			require.NoError(t, early.Unlock()) // or Close would wait for that
		}
		return errors.Is(err, signalbox.ErrClosed)
	})
	select {
	case err := <-closed:
		require.FailNow(t, "Close did not wait", "%v", err)
	default:
	}
	require.NoError(t, lease.Err())
	require.NoError(t, lease.Unlock())
	require.NoError(t, redistest.Receive(t, "the end of Close", closed))
	require.Zero(t, p.holds())
}

// P2: the new hold ends when the old one would have ended; if the old one had no end, the new one is renewed.
func TestSwapKeepsTheEnd(t *testing.T) {
	t.Parallel()
	for name, option := range map[string]signalbox.LockOption{
		"FixedLease": signalbox.WithFixedLease(time.Hour), "MaxHold": signalbox.WithMaxHold(time.Minute),
		"Renewed": signalbox.WithRenewedLease(time.Minute),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newServer(t)
			u := p.newUser(option)
			old := u.acquireAll()
			before := u.config(old)
			lease, err := u.swap(old)
			require.NoError(t, err)
			after := u.config(lease)
			require.NotEqual(t, old.ID(), lease.ID())
			require.Equal(t, before, after)
			require.Equal(t, name == "Renewed", after.Until.IsZero())
			require.NoError(t, lease.Unlock())
			u.awaitIdle()
		})
	}
}

// P2, P4: if the server no longer has the hold, or does not reply while it lasts, no hold is kept and none is
// left. The holder gets a loss.
func TestFailedSwapIsALossAndLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(p *fixture){
		"Gone":     func(p *fixture) { p.server.MustDo(p, "DEL", "sb:{a}:permits") },
		"Silent":   func(p *fixture) { p.proxy.Arm(redistest.Fault{Kind: redistest.SwallowRequest}) },
		"Executed": func(p *fixture) { p.proxy.Arm(redistest.Fault{Kind: redistest.SwallowReply}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			option := signalbox.WithFixedLease(time.Hour)
			if name != "Gone" {
				redistest.Slow(t, "a request of unknown outcome stays open for three seconds")
				option = signalbox.WithFixedLease(time.Second) // over before a silent wire is given up
			}
			p := newServer(t)
			u := p.newUser(option)
			old := u.acquireAll()
			spoil(p)
			lease, err := u.swap(old)
			require.ErrorIs(t, err, errs.ErrLost)
			require.Equal(t, hold.Lease{}, lease)
			require.Error(t, old.Unlock())
			u.awaitIdle()
		})
	}
}

// A lease that is over, or has no hold of a lock, is not swapped, and nothing is sent.
func TestASwapOfWhatIsNotHeldSendsNothing(t *testing.T) {
	t.Parallel()
	p := newServer(t)
	u := p.newUser()
	_, err := u.swap(hold.Lease{})
	require.ErrorIs(t, err, errs.ErrNotHeld)
	released := u.acquireAll()
	require.NoError(t, released.Unlock())
	_, err = u.swap(released)
	require.ErrorIs(t, err, errs.ErrReleased)
	u.options = []signalbox.LockOption{signalbox.WithFixedLease(100 * time.Millisecond)}
	over := u.acquireAll()
	redistest.Receive(t, "the end of the lease", over.Done())
	_, err = u.swap(over)
	require.ErrorIs(t, err, errs.ErrLost)
	require.Zero(t, p.proxy.Requests())
	u.awaitIdle()
}

// A hold that is swapped while the session closes, when it no longer waits for holders, is lost like any
// other, and released.
func TestSwapIsEvictedWithItsSession(t *testing.T) {
	redistest.Slow(t, "a session closes while a reply is late")
	t.Parallel()
	// Close has a second of its own for releases, which a machine that stalls can use up. Holds that it did
	// not reach expire.
	redistest.Await(t, "a Close that ends in its own time", func() bool { return closesOverASwap(t) < time.Second })
}

// closesOverASwap closes a session while a swap is under way, and returns how long that took.
func closesOverASwap(t *testing.T) time.Duration {
	t.Helper()
	p := newServer(t)
	u := p.newUser()
	old := u.acquireAll()
	delayed := p.proxy.Arm(redistest.Fault{Kind: redistest.DelayReply, Delay: 300 * time.Millisecond})
	type outcome struct {
		lease hold.Lease
		err   error
	}
	swapped := make(chan outcome, 1)
	go func() {
		lease, err := u.swap(old)
		swapped <- outcome{lease, err}
	}()
	redistest.Receive(t, "a swap under way", delayed.Fired())
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	began := time.Now()
	require.ErrorContains(t, u.session.Close(ended), "holders were left")
	took := time.Since(began)
	got := redistest.Receive(t, "the end of the swap", swapped)
	if got.err == nil {
		require.ErrorIs(t, got.lease.Err(), errs.ErrClosed)
		got.err = got.lease.Unlock()
	}
	require.Error(t, got.err)
	if took < time.Second {
		redistest.Await(t, "nothing is held", func() bool { return p.holds() == 0 })
	}
	return took
}
