// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/multilock"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/rwlock"
	"github.com/signalbox-go/signalbox/semaphore"
)

// crossServerLock is the locks "a" of one server and "b" of another as one: the sessions of the servers come in this order.
type crossServerLock struct {
	*redlockServers

	sessions [2]*faultySession
}

// crossServerBubble runs a test in virtual time, with scripts and time known.
func crossServerBubble(t *testing.T, test func(c *crossServerLock)) {
	t.Helper()
	bubbleOf(t, 2, func(r *redlockServers) {
		c := &crossServerLock{redlockServers: r}
		for i, f := range r.servers {
			s := f.faultySession()
			r.ends, c.sessions[i] = append(r.ends, func() { s.close() }), s
		}
		for c.sessions[0].ID() > c.sessions[1].ID() { // sessions are taken in the order of their ids
			c.sessions[0].reopen()
		}
		for _, s := range c.sessions {
			(*session.Handle)(s.Session).Session().UnlockPatience = session.UnlockPatience
		}
		r.mustRelease(c.both())
		test(c)
	})
}

// both returns the two locks as one.
func (c *crossServerLock) both() *multilock.Lock {
	return multilock.New(reentrant.New(c.sessions[0].Session, "a"), reentrant.New(c.sessions[1].Session, "b"))
}

// other returns the lock of one of the servers, as another process has it.
func (c *crossServerLock) other(server int) *reentrant.Lock {
	s, _, end := c.servers[server].session(c.T)
	c.ends = append(c.ends, end)
	return reentrant.New(s, []string{"a", "b"}[server])
}

// mustRelease acquires a multilock that is free, and releases it.
func (r *redlockServers) mustRelease(l *multilock.Lock) {
	r.Helper()
	lease, err := l.Lock(r.Context())
	require.NoError(r, err)
	require.NoError(r, lease.Unlock())
	time.Sleep(time.Second)
}

// P10: if a context ends while a round is released, the error says that, and what the server said of the
// member that was held, even if the wait that followed got no reply.
func TestMultilock_ContextEndsBetweenRounds_ErrorSaysHeld(t *testing.T) {
	t.Parallel()
	for name, hasReply := range map[string]bool{"Replied": true, "NotReplied": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			crossServerBubble(t, func(c *crossServerLock) {
				theirs := locktest.Must(c, c.other(1).Lock)
				ctx, cancel := context.WithCancelCause(c.Context())
				defer cancel(nil)
				c.sessions[0].armScript(proto.LockReleaseManyScript, redistest.SwallowReply, 1)
				if !hasReply {
					c.sessions[1].armScript(proto.LockEnterScript, redistest.SwallowRequest, 2) // the first is the try
				}
				waiting := locktest.LaterWith(ctx, c.both().Lock)
				c.sessions[0].awaitFault()
				require.True(t, c.sessions[1].hasFault())
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
	crossServerBubble(t, func(c *crossServerLock) {
		theirs := locktest.Must(c, c.other(1).Lock)
		waiting := locktest.LaterWith(c.Context(), c.both().Lock)
		time.Sleep(time.Second)
		first := c.servers[0].scripts.Load()
		time.Sleep(time.Minute)
		require.Equal(t, first, c.servers[0].scripts.Load(), "it was taken again, while the other could not be had")
		require.NoError(t, locktest.Must(c, c.other(0).Lock).Unlock())
		require.NoError(t, theirs.Unlock())
		got := <-waiting
		require.NoError(t, got.Err)
		require.NoError(t, got.Value.Unlock())
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

// P2: the first member is renewed while the last one is waited for, however long that takes. One that is not renewed and
// ends meanwhile is no part of a success: it is acquired again.
func TestMultilock_WaitForTheLast_KeepsOrRenewsTheFirst(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		option signalbox.LockOption
		kept   bool
	}{
		"Renewed": {signalbox.WithRenewedLease(5 * time.Second), true}, "Fixed": {signalbox.WithFixedLease(5 * time.Second), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubbleOfUsers(t, func(f *fixture) {
				s := f.user().Session
				other := f.user().Session
				both := multilock.New(fair.New(s, "a", c.option), fair.New(s, "b", c.option))
				order := both.Order()
				theirs := locktest.Must(f, fair.New(other, order[1]).Lock)
				waiting := locktest.LaterWith(f.Context(), both.Lock)
				time.Sleep(time.Second)
				first := locktest.Must(f, fair.New(other, order[0]).Holder)
				time.Sleep(time.Minute)
				require.NoError(t, theirs.Unlock())
				got := <-waiting
				require.NoError(t, got.Err)
				require.NoError(t, got.Value.Err())
				for i, token := range multilock.Tokens(got.Value) {
					if c.kept && []string{"a", "b"}[i] == order[0] {
						require.Equal(t, first.Token, token, "it was lost in between")
					} else {
						require.Greater(t, token, first.Token)
					}
				}
				require.NoError(t, got.Value.Unlock())
			})
		})
	}
}

// tardyMember is a member that, the first time, is acquired only after the caller has stopped waiting.
type tardyMember struct {
	multilock.Member

	once sync.Once
	took signalbox.Lease // the lease of the first time
}

// Lock implements multilock.Member.
func (tm *tardyMember) Lock(ctx context.Context) (signalbox.Lease, error) {
	var err error
	first := false
	tm.once.Do(func() {
		first = true
		<-ctx.Done()
		tm.took, err = tm.Member.Lock(context.WithoutCancel(ctx))
	})
	if first {
		return tm.took, err
	}
	return tm.Member.Lock(ctx)
}

// P2: if a member ends in the instant in which the last one comes, both are acquired anew.
func TestMultilock_MemberEndsAsTheLastComes_AllAreAcquiredAnew(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		s := f.user().Session
		short := signalbox.WithFixedLease(time.Second)
		byName := map[string]multilock.Member{"a": fair.New(s, "a", short), "b": fair.New(s, "b", short)}
		order := multilock.New(byName["a"], byName["b"]).Order()
		last := &tardyMember{Member: byName[order[1]]}
		lease := locktest.Must(f, multilock.New(byName[order[0]], last).Lock)
		require.NoError(t, lease.Err())
		require.Greater(t, multilock.Tokens(lease)[1], last.took.Token(), "the lease of a round that had lost a member")
		require.NoError(t, lease.Unlock())
	})
}

// P2: the channel of a multilock is closed with that of any member that has the option, also if another session waits for that already.
// There is none if no member has the option.
func TestMultilockIsWanted(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		s, other := f.user().Session, f.user().Session
		both := func(wanted string) *multilock.Lock {
			option := map[string][]signalbox.LockOption{wanted: {signalbox.WithWanted()}}
			return multilock.New(reentrant.New(s, "a", option["a"]...), reentrant.New(s, "b", option["b"]...))
		}
		none := atOnce(f.T, both(""))
		require.Nil(f, none.Wanted())
		require.NoError(f, none.Unlock())
		for _, member := range []string{"a", "b"} {
			outer := atOnce(f.T, reentrant.New(s, member, signalbox.WithWanted()))
			ctx := outer.Enter(f.Context())
			inner, err := both(member).Lock(ctx)
			require.NoError(f, err)
			require.False(f, locktest.IsClosed(inner.Wanted()))
			time.Sleep(time.Second) // it listens
			next := queued(f.Context(), fair.New(other, member))
			time.Sleep(10 * time.Millisecond)
			require.True(f, locktest.IsClosed(inner.Wanted()))
			require.NoError(f, inner.Unlock())
			later, err := both(member).Lock(ctx)
			require.NoError(f, err)
			require.True(f, locktest.IsClosed(later.Wanted()))
			require.NoError(f, later.Unlock())
			require.NoError(f, outer.Unlock())
			require.NoError(f, (<-next).lease.Unlock())
		}
	})
}
