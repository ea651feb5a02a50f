// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/multilock"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/scripts"
	"github.com/signalbox-go/signalbox/semaphore"
)

// P2: the deadline is the least of the members', the lease ends with the first of them, and the others are released.
func TestMultilock_OneMemberEnds_LeaseEnds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		option signalbox.LockOption
		cause  error
	}{
		"Fixed":   {signalbox.WithFixedLease(5 * time.Second), signalbox.ErrLost},
		"MaxHold": {signalbox.WithMaxHold(5 * time.Second), signalbox.ErrMaxHold},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(f *fixture) {
				s, _, end := f.session(f.T)
				defer end()
				long, short := reentrant.New(s, "long"), fair.New(s, "short", c.option)
				for _, members := range [][]multilock.Member{{long, short}, {short, long}} {
					all := multilock.New(members...)
					began := time.Now()
					lease := locktest.Must(f, all.Lock)
					require.WithinRange(t, lease.Deadline(), began, began.Add(5*time.Second))
					<-lease.Done()
					require.InDelta(t, 5, time.Since(began).Seconds(), 0.2)
					require.ErrorIs(t, lease.Err(), c.cause)
					require.ErrorIs(t, lease.Unlock(), c.cause)
					time.Sleep(time.Second)
					requireFree(f.T, all)
				}
			})
		})
	}
}

// P2: a member whose key is lost ends the lease by the next renewal, and the error names it.
func TestMultilock_LostPermits_LeaseIsLost(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		s, _, end := f.session(f.T)
		defer end()
		life := signalbox.WithRenewedLease(6 * time.Second)
		both := multilock.New(semaphore.New(s, "pool", 3, life).Permits(2), reentrant.New(s, "a", life))
		lease := locktest.Must(f, both.Lock)
		time.Sleep(30 * time.Second)
		require.NoError(t, lease.Err())
		f.redis.Del("sb:{pool}:permits")
		require.LessOrEqual(t, took(func() { <-lease.Done() }), 2*time.Second)
		require.ErrorIs(t, lease.Err(), signalbox.ErrLost)
		require.ErrorContains(t, lease.Err(), `"pool"`)
		time.Sleep(time.Second)
		requireFree(f.T, both)
	})
}

// P8: a lease that lost a member neither lengthens nor ends the hold of the member's next holder.
func TestMultilock_LostMember_LeavesTheNextHold(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		s, link, end := f.session(f.T)
		defer end()
		other, _, endOther := f.session(f.T)
		defer endOther()
		life := signalbox.WithRenewedLease(6 * time.Second)
		lease := locktest.Must(f, multilock.New(reentrant.New(s, "a", life), fair.New(s, "c", life)).Lock)
		time.Sleep(time.Second)
		link.goSilent()
		next := locktest.Must(f, reentrant.New(other, "a", signalbox.WithFixedLease(time.Minute)).Lock)
		require.ErrorIs(t, lease.Err(), signalbox.ErrLost, "held by two")
		link.heal()
		require.ErrorIs(t, lease.Unlock(), signalbox.ErrLost)
		time.Sleep(30 * time.Second)
		require.NoError(t, next.Err())
		require.InDelta(t, 30, f.left("a").Seconds(), 1)
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
			bubble(t, func(f *fixture) {
				s, _, end := f.session(f.T)
				defer end()
				other, _, endOther := f.session(f.T)
				defer endOther()
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

// tardyMember is a member that, the first time, is acquired only when it is not waited for any more.
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
	bubble(t, func(f *fixture) {
		s, _, end := f.session(f.T)
		defer end()
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

// P4, P5: at whichever script the wire fails, and whether or not the server executed it, the call ends with all members or
// with none, and nothing is left.
func TestMultilock_FaultAtAnyStep_LeavesNothing(t *testing.T) {
	t.Parallel()
	for _, kind := range []redistest.FaultKind{
		redistest.CutBeforeRequest, redistest.CutAfterRequest, redistest.SwallowRequest, redistest.SwallowReply,
	} {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			bubble(t, func(f *fixture) {
				viewer, _, end := f.session(f.T)
				defer end()
				requireFree(f.T, allKinds(viewer)) // the scripts are known
				for at := 1; at <= 6; at++ {
					f.faultAt(kind, at, "waits", allKinds, allKinds(viewer))
				}
				together := func(s *signalbox.Session) *multilock.Lock {
					return multilock.New(reentrant.New(s, "a"), reentrant.New(s, "b"), reentrant.New(s, "f"))
				}
				for _, how := range []string{"waits", "tries", "gives up"} {
					for at := 1; at <= 2; at++ {
						f.faultAt(kind, at, how, together, together(viewer))
					}
				}
			})
		})
	}
}

// certain is how many requests there are at least: three that acquire, and the releases of three kinds, which the client
// may write together.
const certain = 4

// faultAt acquires and releases a multilock while the at-th script fails.
func (f *fixture) faultAt(kind redistest.FaultKind, at int, how string, of func(*signalbox.Session) *multilock.Lock, view *multilock.Lock) {
	f.Helper()
	what := fmt.Sprint(kind, " at ", at, " ", how)
	fault := newRequestFault(kind)
	s, _, end := f.requestFaultSession(fault)
	defer end()
	all := of(s)
	requireFree(f.T, all)
	fault.arm(at)
	ctx, cancel := context.WithTimeout(f.Context(), 20*time.Second)
	defer cancel()
	take := all.Lock
	switch how {
	case "tries":
		take = all.TryLock
	case "gives up":
		go func() {
			<-fault.fired
			cancel()
		}()
	}
	lease, err := take(ctx)
	if err == nil {
		require.NoError(f, lease.Err(), what)
		_, err = view.TryLock(f.Context())
		require.ErrorIs(f, err, signalbox.ErrHeld, what)
		if err = lease.Unlock(); err != nil {
			require.ErrorIs(f, err, signalbox.ErrUnconfirmed, what)
		}
	}
	if at <= certain {
		require.True(f, locktest.IsClosed(fault.fired), what)
	}
	time.Sleep(10 * time.Second) // a third of a lease
	requireFree(f.T, view)
	requireIdle(f.T, s)
}

// P4: a release without a reply is repeated in the background, and the error names every member of it.
func TestMultilock_LostRelease_IsResolved(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		fault := newRequestFault(redistest.SwallowRequest)
		s, _, end := f.requestFaultSession(fault)
		defer end()
		names := []string{"a", "b", "c"}
		var members []multilock.Member
		for _, name := range names {
			members = append(members, reentrant.New(s, name))
		}
		all := multilock.New(members...)
		lease := locktest.Must(f, all.Lock)
		fault.arm(1, scripts.LockReleaseMany)
		err := lease.Unlock()
		require.ErrorIs(t, err, signalbox.ErrUnconfirmed)
		for _, name := range names {
			require.ErrorContains(t, err, name)
		}
		time.Sleep(10 * time.Second)
		requireFree(f.T, all)
		requireIdle(t, s)
	})
}
