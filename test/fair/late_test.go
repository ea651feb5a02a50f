// SPDX-License-Identifier: Apache-2.0

package fair_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/locktest"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/scripts"
)

// stray is an enter that was sent and did not arrive, whose waiter has left since on another
// connection: a test lets it arrive when it likes.
type stray struct {
	session *signalbox.Session
	request []any
}

// stray lets a session ask for a lock, loses its enter, and returns when it has left and the server
// knows: nothing of it stands in line.
func (w *world) stray(t *testing.T, name string) *stray {
	t.Helper()
	proxy := redistest.NewProxy(t, w.server.Addr())
	proxy.SetMatch(locktest.Runs(scripts.FairEnter, scripts.FairLeave))
	s := &stray{session: locktest.Session(t, proxy)}
	lost := make(chan []string, 1)
	left := make(chan struct{}, 16)
	proxy.OnRequest(func(k int, req []string) {
		switch {
		case k == 1:
			lost <- req
		case locktest.Runs(scripts.FairLeave)(req):
			left <- struct{}{}
		}
	})
	armed := proxy.Arm(redistest.Fault{Kind: redistest.SwallowRequest, At: 1})
	ctx, cancel := context.WithCancel(locktest.Context(t))
	defer cancel()
	asked := make(chan error, 1)
	go func() {
		_, err := fair.New(s.session, name).Lock(ctx)
		asked <- err
	}()
	redistest.Receive(t, "the enter is on its way", armed.Fired())
	for _, word := range <-lost {
		s.request = append(s.request, word)
	}
	replies := proxy.Replies()
	cancel()
	require.ErrorIs(t, <-asked, context.Canceled)
	proxy.CutAll() // the leave takes another connection
	redistest.Receive(t, "it leaves", left)
	redistest.Await(t, "the server knows", func() bool { return proxy.Replies() > replies })
	require.Zero(t, w.view.Waiting(name))
	return s
}

// arrives executes the enter.
func (s *stray) arrives(t *testing.T, w *world) []any {
	t.Helper()
	reply, ok := w.server.MustDo(t, s.request...).([]any)
	require.True(t, ok)
	return reply
}

// P4: an enter that is executed after its waiter has left, because it went another way than the leave,
// leaves no ticket: within its not-after the leave is repeated when that is over, and later the
// enter has no effect.
func TestEnterThatComesAfterItsLeaveLeavesNoTicket(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const name = "late"
	held := w.hold(t, name)
	s := w.stray(t, name)
	reply := s.arrives(t, w)
	begun := time.Now()
	require.EqualValues(t, 0, reply[0], "the not-after is over already")
	require.Equal(t, 1, w.view.Waiting(name))
	redistest.AwaitFor(t, bound, "its ticket is gone", func() bool { return w.view.Waiting(name) == 0 })
	t.Logf("the ticket of nobody was gone after %v", time.Since(begun).Round(time.Millisecond))
	redistest.AwaitFor(t, bound, "nothing is under way", func() bool { return locktest.Settling(s.session) == 0 })
	require.EqualValues(t, -1, s.arrives(t, w)[0], "it has no effect any more")
	require.Zero(t, w.view.Waiting(name))
	require.NoError(t, held.Unlock())
	w.nothingLeft(t)
}

// P6: such an enter may be granted the lock. Those behind have it when the leave is repeated, or when
// what the ticket of nobody counted as living for is over.
func TestGrantToATicketOfNobodyPassesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const name = "nobody"
	held := w.hold(t, name)
	s := w.stray(t, name)
	require.EqualValues(t, 0, s.arrives(t, w)[0])
	got := w.asks(t, w.waiter, name, 2)
	require.NoError(t, held.Unlock())
	h := w.view.MustHold(t, name)
	require.NotEmpty(t, h.ID)
	require.Greater(t, h.Token, held.Token(), "granted to nobody")
	r := gets(t, got, bound)
	t.Logf("those behind had the lock %v after the release", granted(r.lease).Sub(granted(held)).Round(time.Millisecond))
	require.Greater(t, r.lease.Token(), h.Token)
	require.NoError(t, r.lease.Unlock())
	redistest.AwaitFor(t, bound, "nothing is under way", func() bool { return locktest.Settling(s.session) == 0 })
	require.EqualValues(t, -1, s.arrives(t, w)[0])
	w.nothingLeft(t)
}

// P4: a try that is answered when the lease is over already is given back before the next, which finds the
// lock free.
func TestTryThatTookTooLongIsNotInItsOwnWay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	// Before the server was told not to, and with time enough for the second on a machine that stalls.
	const name, leased, answered = "slow", 1500 * time.Millisecond, 2200 * time.Millisecond
	proxy := redistest.NewProxy(t, w.server.Addr())
	proxy.SetMatch(locktest.Runs(scripts.FairEnter))
	armed := proxy.Arm(redistest.Fault{Kind: redistest.DelayRequest, At: 1, Delay: answered})
	lock := fair.New(locktest.SessionOf(t, proxy.Client(t, locktest.Steady)), name, signalbox.RenewedLease(leased))
	lease, err := lock.TryLock(locktest.Context(t))
	require.True(t, armed.HasFired())
	require.NoError(t, err)
	require.NoError(t, forgive(lease.Unlock()))
	w.nothingLeft(t)
}
