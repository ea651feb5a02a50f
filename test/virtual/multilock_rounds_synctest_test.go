// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/multilock"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/rwlock"
	"github.com/signalbox-go/signalbox/scripts"
	"github.com/signalbox-go/signalbox/semaphore"
)

// P10: if a context ends while a round is released, the error says that, and what the server said of the
// member that was held, even if the wait that followed got no reply.
func TestMultilock_ContextEndsBetweenRounds_ErrorSaysHeld(t *testing.T) {
	t.Parallel()
	for name, hasReply := range map[string]bool{"Replied": true, "NotReplied": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			crossServerBubble(t, [2]redistest.FaultKind{redistest.SwallowReply, redistest.SwallowRequest}, func(c *crossServerLock) {
				theirs := locktest.Must(c, c.other(1).Lock)
				ctx, cancel := context.WithCancelCause(c.Context())
				defer cancel(nil)
				c.faults[0].arm(1, scripts.LockReleaseMany)
				if !hasReply {
					c.faults[1].arm(2, scripts.LockEnter) // the first is the try
				}
				waiting := locktest.LaterWith(ctx, c.both().Lock)
				<-c.faults[0].fired
				require.Equal(t, hasReply, !locktest.IsClosed(c.faults[1].fired))
				ended := errors.New("the caller has gone")
				cancel(ended)
				err := (<-waiting).Err
				require.ErrorIs(t, err, ended)
				require.ErrorIs(t, err, context.Canceled)
				require.ErrorIs(t, err, signalbox.ErrHeld)
				require.ErrorContains(t, err, `"b"`)
				require.NotContains(t, err.Error(), "round")
				require.NoError(t, theirs.Unlock())
			})
		})
	}
}

// P6: no order exists over two servers. A round that did not get the members of a session begins the next with these, and
// holds nothing while it waits for them.
func TestMultilock_MemberIsHeld_NextRoundBeginsWithIt(t *testing.T) {
	t.Parallel()
	crossServerBubble(t, [2]redistest.FaultKind{}, func(c *crossServerLock) {
		theirs := locktest.Must(c, c.other(1).Lock)
		waiting := locktest.LaterWith(c.Context(), c.both().Lock)
		time.Sleep(time.Second)
		first := c.servers[0].commands.Load()
		time.Sleep(time.Minute)
		require.Equal(t, first, c.servers[0].commands.Load(), "it was taken again, while the other could not be had")
		require.NoError(t, locktest.Must(c, c.other(0).Lock).Unlock())
		require.NoError(t, theirs.Unlock())
		got := <-waiting
		require.NoError(t, got.Err)
		require.NoError(t, got.Value.Unlock())
	})
}

// P4: a server that sends no replies keeps no members of the other servers.
func TestMultilock_SilentServer_KeepsNoOtherMember(t *testing.T) {
	t.Parallel()
	crossServerBubble(t, [2]redistest.FaultKind{0, redistest.SwallowRequest}, func(c *crossServerLock) {
		lease := locktest.Must(c, c.both().Lock)
		c.faults[1].arm(1, scripts.LockReleaseMany)
		err := lease.Unlock()
		require.ErrorIs(t, err, signalbox.ErrUnconfirmed)
		require.ErrorContains(t, err, `"b"`)
		require.NotContains(t, err.Error(), `"a"`)
		require.NoError(t, locktest.Must(c, c.other(0).TryLock).Unlock())
		time.Sleep(5 * time.Second)
		require.NoError(t, locktest.Must(c, c.other(1).TryLock).Unlock())
		requireIdle(t, c.sessions[:]...)
	})
}

// P10: the context may end before the reply to a wait. The error says what the try before it found.
func TestMultilock_ContextEndsBeforeTheReply_ErrorSaysHeld(t *testing.T) {
	t.Parallel()
	bubbleOf(t, 2, func(r *redlockServers) {
		mine, wires := r.process()
		others, _ := r.process()
		members := map[string]int{"a": 0, "b": 1} // to their servers
		mu := multilock.New(semaphore.New(mine[0], "a", 1).Permits(1), semaphore.New(mine[1], "b", 1).Permits(1))
		r.mustRelease(mu)
		last := mu.Order()[1]
		lease := locktest.Must(r, semaphore.New(others[members[last]], last, 1).Permits(1).Lock)
		for _, w := range wires {
			w.latency.Store(int64(100 * time.Millisecond))
		}
		ctx, cancel := context.WithTimeout(r.Context(), 500*time.Millisecond) // the first member, the try, and half of the wait's way
		defer cancel()
		_, err := mu.Lock(ctx)
		require.ErrorIs(r, err, context.DeadlineExceeded)
		require.ErrorIs(r, err, signalbox.ErrHeld)
		require.NoError(r, lease.Unlock())
	})
}

// P6: free members are acquired however far their servers are: a round trip is no wait. Those of either server take longer
// than any round waits for a member that is held.
func TestMultilock_FarServers_FreeMembersAreAcquired(t *testing.T) {
	t.Parallel()
	bubbleOf(t, 2, func(r *redlockServers) {
		sessions, wires := r.process()
		var members []multilock.Member
		for i, s := range sessions {
			for n := range 7 {
				members = append(members, fair.New(s, fmt.Sprint(i, n)))
			}
		}
		r.mustRelease(multilock.New(members...))
		for _, w := range wires {
			w.latency.Store(int64(100 * time.Millisecond))
		}
		var lease signalbox.Lease
		require.LessOrEqual(t, took(func() { lease = locktest.Must(r, multilock.New(members...).Lock) }), 14*200*time.Millisecond)
		require.NoError(t, lease.Unlock())
	})
}

// P6: processes that want the members of two servers in opposite orders all get them.
func TestMultilock_TwoServersInOppositeOrders_AllGetTurns(t *testing.T) {
	t.Parallel()
	bubbleOf(t, 2, func(r *redlockServers) {
		ended := make(chan error, 4)
		for i := range cap(ended) {
			s, wires := r.process()
			for _, w := range wires {
				w.latency.Store(int64(hop))
			}
			members := []multilock.Member{reentrant.New(s[0], "a"), fair.New(s[1], "b"), rwlock.New(s[0], "c")}
			if i%2 == 1 {
				members[0], members[1] = members[1], members[0]
			}
			go func() {
				for range 5 {
					lease, err := multilock.New(members...).Lock(r.Context())
					if err = errors.Join(err, lease.Unlock()); err != nil {
						ended <- err
						return
					}
				}
				ended <- nil
			}()
		}
		require.Less(t, took(func() {
			for range cap(ended) {
				require.NoError(t, <-ended)
			}
		}), time.Minute)
	})
}
