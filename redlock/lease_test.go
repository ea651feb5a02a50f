// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/redlock"
)

// P7: entering again asks no server; the hold ends with the last of its leases.
func TestEnteringAgainSendsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	sessions := w.sessions(signalbox.WithPolling()) // those that listen ask when they begin to whether their holds are there still
	mu := redlock.New(sessions, "a")
	lease := w.mustLockAll(mu, "a")
	for _, p := range w.proxies {
		p.ResetCount()
	}
	ctx := lease.Enter(t.Context())
	reordered := redlock.New([]*signalbox.Session{sessions[2], sessions[1], sessions[0]}, "a")
	for _, lock := range []func(context.Context) (signalbox.Lease, error){mu.Lock, mu.TryLock, reordered.Lock} {
		again, err := lock(ctx)
		require.NoError(t, err)
		require.Equal(t, lease.Token(), again.Token())
		require.NoError(t, again.Unlock())
	}
	require.NoError(t, lease.Err())
	for _, p := range w.proxies {
		require.Zero(t, p.Requests())
	}
	// Other servers, or other sessions, are another lock, which this lease does not enter.
	mustBeHeld(ctx, t, w.lock("a"))
	require.NoError(t, lease.Unlock())
	_, err := mu.Lock(ctx)
	require.ErrorIs(t, err, signalbox.ErrReleased)
	w.awaitFree("a")
}

func TestDoHoldsTheLockWhileItsFunctionRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	mu := w.lock("a")
	broke := errors.New("no funds")
	var inside context.Context
	err := mu.Do(t.Context(), func(ctx context.Context, lease signalbox.Lease) error {
		inside = ctx
		require.GreaterOrEqual(t, w.holds("a"), 2)
		require.NoError(t, mu.Do(ctx, func(context.Context, signalbox.Lease) error { return nil }))
		return broke
	})
	require.EqualError(t, err, "no funds")
	require.ErrorIs(t, context.Cause(inside), signalbox.ErrReleased)
	require.PanicsWithValue(t, "x", func() {
		_ = mu.Do(t.Context(), func(context.Context, signalbox.Lease) error { panic("x") })
	})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = mu.Do(t.Context(), func(context.Context, signalbox.Lease) error {
			runtime.Goexit()
			return nil
		})
	}()
	within(t, "the end of the goroutine", ended)
	w.awaitFree("a")
}

// P1: goroutines that share a Locker exclude each other.
func TestALockerExcludesGoroutines(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	locker := w.lock("a").Locker(t.Context())
	count := 0
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 10 {
				locker.Lock()
				count++
				locker.Unlock()
			}
		})
	}
	group.Wait()
	require.Equal(t, 40, count)
	w.awaitFree("a")
}

// P2: a fixed lease ends here before its keys end there.
func TestAFixedLeaseEndsBeforeItsKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	lease := mustLock(t, w.lock("a", signalbox.FixedLease(moment)))
	for w.holds("a") > 1 {
		if lease.Err() != nil {
			break
		}
	}
	require.ErrorIs(t, lease.Err(), signalbox.ErrLost)
	lease = mustLock(t, w.lock("b", signalbox.MaxHold(moment)))
	within(t, "the end of the lease", lease.Done())
	require.ErrorIs(t, lease.Err(), signalbox.ErrMaxHold)
}

// P2: what a quorum lost is told by the next renewal; what a minority lost is not missed.
func TestAHoldThatAQuorumLostIsLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	lease := w.mustLockAll(w.lock("a", signalbox.RenewedLease(steady)), "a")
	w.servers[0].MustDo(t, "DEL", key("a"))
	first := lease.Deadline()
	await(t, "a renewal", func() bool { return lease.Deadline().After(first.Add(500 * time.Millisecond)) })
	require.NoError(t, lease.Err())
	w.servers[1].MustDo(t, "DEL", key("a"))
	within(t, "the end of the lease", lease.Done())
	require.ErrorIs(t, lease.Err(), signalbox.ErrLost)
	w.awaitFree("a")
}

// Unlock says what is known.
func TestUnlockSaysWhatAQuorumSays(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	mu := redlock.New(w.sessions(signalbox.WithPolling()), "a", signalbox.FixedLease(steady))
	lease := w.mustLockAll(mu, "a")
	w.servers[0].MustDo(t, "DEL", key("a"))
	require.NoError(t, lease.Unlock(), "two had it")
	w.awaitFree("a")

	lease = w.mustLockAll(mu, "a")
	for _, s := range w.servers[:2] {
		s.MustDo(t, "DEL", key("a"))
	}
	require.ErrorIs(t, lease.Unlock(), signalbox.ErrLost)
	w.awaitFree("a")

	lease = mustLock(t, mu)
	for _, s := range w.servers[:2] {
		s.Freeze()
	}
	err := lease.Unlock()
	require.ErrorIs(t, err, signalbox.ErrUnconfirmed)
	require.ErrorContains(t, err, "of 3")
	for _, s := range w.servers[:2] {
		s.Thaw()
	}
	w.awaitFree("a")
}

// P3: with Fenced, tokens rise though the clock of a server that gave one is far ahead of the others', and the holder
// crashed. Without it they do not.
func TestFencedTokensRiseWhateverTheClocksSay(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		options []redlock.Option
		rises   bool
	}{"Fenced": {[]redlock.Option{redlock.Fenced()}, true}, "Bare": {nil, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 3)
			mu, other := w.lock("a", c.options...), w.lock("a", c.options...)
			require.NoError(t, w.mustLockAll(mu, "a").Unlock()) // it knows every server's time, and is granted by one that thaws
			w.awaitFree("a")
			// Server 0 gives stamps as one whose clock is ten minutes ahead.
			w.servers[0].MustDo(t, "EVAL", `return redis.call('SET', KEYS[1],
				'sb1-' .. string.format('%016.0f', redis.call('TIME')[1] * 1000000 + 600000000), 'PX', 3600000)`, 1, key("a"))
			w.servers[1].Freeze()
			lease := mustLock(t, mu)
			w.servers[1].Thaw()
			w.awaitHolds("a", 3)
			for _, s := range w.servers {
				s.MustDo(t, "DEL", key("a")) // as when the keys of a crashed holder end
			}
			w.servers[0].Kill()
			next := mustLock(t, other)
			require.Equal(t, c.rises, next.Token() > lease.Token())
			require.NoError(t, next.Unlock())
		})
	}
}

// P8: it is taken everywhere, the holder is told, and who waits has it.
func TestForceUnlockTakesTheLockEverywhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	hours := signalbox.RenewedLease(time.Hour) // so no renewal tells
	mu := w.lock("a", hours)
	require.ErrorIs(t, mu.ForceUnlock(t.Context()), signalbox.ErrNotHeld)
	locked, err := mu.IsLocked(t.Context())
	require.NoError(t, err)
	require.False(t, locked)
	_, err = mu.Holder(t.Context())
	require.ErrorIs(t, err, signalbox.ErrNotHeld)

	sessions := w.sessions(signalbox.WithLabel("host:42"))
	lease := w.mustLockAll(redlock.New(sessions, "a", hours), "a")
	holder, err := mu.Holder(t.Context())
	require.NoError(t, err)
	require.Equal(t, "redlock", holder.Kind)
	require.Equal(t, "host:42", holder.Label)
	require.Contains(t, []string{sessions[0].ID(), sessions[1].ID(), sessions[2].ID()}, holder.Session)
	locked, err = mu.IsLocked(t.Context())
	require.NoError(t, err)
	require.True(t, locked)

	waiting := lockLater(t.Context(), mu)
	await(t, "the marks of the waiter", func() bool { return w.marked("a") >= 2 })
	require.NoError(t, w.lock("a").ForceUnlock(t.Context()))
	within(t, "the end of the lease", lease.Done())
	require.ErrorIs(t, lease.Err(), signalbox.ErrLost)
	next := mustHave(t, waiting)
	require.Greater(t, next.Token(), lease.Token())
	require.NoError(t, next.Unlock())

	w.awaitFree("a")
	w.servers[0].Kill()
	w.servers[1].Kill()
	_, err = mu.Holder(t.Context())
	require.Error(t, err)
	require.NotErrorIs(t, err, signalbox.ErrNotHeld)
	require.Error(t, mu.ForceUnlock(t.Context()))
}

// P6: the closing of any session sends waiters away, and waits for holders.
func TestCloseOfAnySessionEndsTheLock(t *testing.T) {
	t.Parallel()
	for i := range 3 {
		w := newWorld(t, 3)
		sessions := w.sessions(signalbox.WithCloseGrace(patience))
		mu := redlock.New(sessions, "a")
		lease := mustLock(t, mu)
		waiting := lockLater(t.Context(), mu)
		elsewhere := lockLater(t.Context(), redlock.New(append(w.sessions()[:2], newSession(t, w.servers[2])), "a"))
		closed := make(chan error, 1)
		go func() { closed <- sessions[i].Close(t.Context()) }()
		require.ErrorIs(t, within(t, "the end of a wait", waiting).err, signalbox.ErrClosed)
		require.NoError(t, lease.Err())
		require.False(t, isClosed(closed))
		require.NoError(t, lease.Unlock())
		require.NoError(t, within(t, "the end of Close", closed))
		require.NoError(t, mustHave(t, elsewhere).Unlock())
		_, err := mu.Lock(t.Context())
		require.ErrorIs(t, err, signalbox.ErrClosed)
		require.ErrorIs(t, mu.Check(), signalbox.ErrClosed)
		w.awaitFree("a")
	}
}

// P6: a contender that waits at the servers is sent away too; and where holders are not waited for, their leases end.
func TestCloseDoesNotWaitForever(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	lease := w.mustLockAll(w.lock("a"), "a")
	sessions := w.sessions()
	waiting := lockLater(t.Context(), redlock.New(sessions, "a"))
	await(t, "the marks of the waiter", func() bool { return w.marked("a") >= 2 })
	other := mustLock(t, redlock.New(sessions, "b"))
	require.Error(t, sessions[1].Close(endedContext()))
	require.ErrorIs(t, within(t, "the end of a wait", waiting).err, signalbox.ErrClosed)
	require.ErrorIs(t, other.Err(), signalbox.ErrLost)
	require.ErrorIs(t, other.Err(), signalbox.ErrClosed)
	w.awaitFree("b")
	require.NoError(t, lease.Unlock())
}

// P7: sessions that hold nothing and wait for nothing say nothing.
func TestNothingRemainsAfterUse(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	sessions, others := w.sessions(), w.sessions()
	one, other := redlock.New(sessions, "a"), redlock.New(others, "a")
	for range 3 {
		lease := mustLock(t, one)
		waiting := lockLater(t.Context(), other)
		require.NoError(t, lease.Unlock())
		require.NoError(t, mustHave(t, waiting).Unlock())
	}
	for _, server := range w.servers {
		await(t, "the end of the subscriptions", func() bool {
			channels, _ := server.MustDo(t, "PUBSUB", "CHANNELS").([]any)
			return len(channels) == 0
		})
	}
	settled(t, sessions)
	settled(t, others)
	for _, p := range w.proxies {
		p.ResetCount()
	}
	within(t, "two seconds", time.NewTimer(2*time.Second).C)
	for _, p := range w.proxies {
		require.Zero(t, p.Requests())
	}
}

// A name is hashed in the error too, if the sessions are no quorum and any of them hashes names.
func TestErrorsOfABadQuorumHashTheName(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	sessions := []*signalbox.Session{newSession(t, server), newSession(t, server, signalbox.WithHashedNames()), newSession(t, server)}
	for n := 2; n <= 3; n++ {
		err := redlock.New(sessions[:n], "secret").Check()
		require.ErrorIs(t, err, signalbox.ErrBadOption)
		require.ErrorContains(t, err, "%sha256-")
		require.NotContains(t, err.Error(), "secret")
	}
}

// A bad argument is the error of every call, and of Check.
func TestABadArgumentIsTheErrorOfEveryCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	good := w.sessions()
	other := newSession(t, w.servers[0], signalbox.WithPrefix("other:"))
	hashed := newSession(t, w.servers[0], signalbox.WithHashedNames())
	bad := signalbox.NewSession(nil)
	for name, c := range map[string]struct {
		lock *redlock.Lock
		want error
	}{
		"None":           {redlock.New(nil, "a"), signalbox.ErrBadOption},
		"One":            {redlock.New(good[:1], "a"), signalbox.ErrBadOption},
		"Even":           {redlock.New(append(good[:3:3], newSession(t, w.servers[0])), "a"), signalbox.ErrBadOption},
		"Nil":            {redlock.New([]*signalbox.Session{good[0], nil, good[1]}, "a"), signalbox.ErrBadOption},
		"Bad":            {redlock.New([]*signalbox.Session{good[0], bad, good[1]}, "a"), signalbox.ErrBadOption},
		"Twice":          {redlock.New([]*signalbox.Session{good[0], good[1], good[0]}, "a"), signalbox.ErrBadOption},
		"Prefix":         {redlock.New([]*signalbox.Session{good[0], good[1], other}, "a"), signalbox.ErrBadOption},
		"Hashed":         {redlock.New([]*signalbox.Session{good[0], good[1], hashed}, "a"), signalbox.ErrBadOption},
		"Replicas":       {redlock.New(good, "a", signalbox.WaitReplicas(1, time.Second)), signalbox.ErrBadOption},
		"Lease":          {redlock.New(good, "a", signalbox.FixedLease(time.Millisecond)), signalbox.ErrBadOption},
		"Greatest":       {redlock.New(good, "a", redlock.GreatestLease(time.Second)), signalbox.ErrBadOption},
		"GreatestLength": {redlock.New(good, "a", redlock.GreatestLease(48*time.Hour)), signalbox.ErrBadOption},
		"Name":           {redlock.New(good, ""), signalbox.ErrBadName},
		"LongName":       {redlock.New(good, strings.Repeat("x", 513)), signalbox.ErrBadName},
	} {
		require.ErrorIs(t, c.lock.Check(), c.want, name)
		_, err := c.lock.Lock(t.Context())
		require.ErrorIs(t, err, c.want, name)
		_, err = c.lock.TryLock(t.Context())
		require.ErrorIs(t, err, c.want, name)
		_, err = c.lock.Holder(t.Context())
		require.ErrorIs(t, err, c.want, name)
		require.ErrorIs(t, c.lock.ForceUnlock(t.Context()), c.want, name)
		require.ErrorIs(t, c.lock.Do(t.Context(), nil), c.want, name)
	}
	mu := redlock.New(good, "a", nil, signalbox.LockOption(nil), signalbox.RenewedLease(time.Second), redlock.Fenced(), redlock.GreatestLease(time.Minute))
	require.NoError(t, mu.Check())
	_, err := mu.Lock(nil) //nolint:staticcheck // asks for it
	require.ErrorIs(t, err, signalbox.ErrBadOption)
}

// A cluster loses writes in a failover, and no server of it knows of its own: it is no member.
func TestAClusterIsNoMember(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	cluster := redistest.StartCluster(t, redistest.WithFailoverAfter(time.Minute))
	sessions := append(w.sessions(), newSession(t, cluster))
	require.ErrorIs(t, redlock.New(sessions, "a").Check(), signalbox.ErrBadOption)
}
