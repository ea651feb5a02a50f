// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/election"
	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/multilock"
	"github.com/signalbox-go/signalbox/once"
	"github.com/signalbox-go/signalbox/redisson"
	"github.com/signalbox-go/signalbox/redlock"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/rwlock"
	"github.com/signalbox-go/signalbox/semaphore"
	"github.com/signalbox-go/signalbox/setnx"
	"github.com/signalbox-go/signalbox/shards"
)

// suspendedFor sets the wall clock as a host finds it that was suspended for d. Its monotonic clock was suspended.
func suspendedFor(d time.Duration) (resumed time.Time) {
	clock.Skew(d)
	return time.Now()
}

// withinASleep is how long after the host resumes everything that is over has ended.
const withinASleep = 600 * time.Millisecond

// closingChannels is what a test waits for: channels that close, by name.
type closingChannels map[string]<-chan struct{}

// lease watches everything that ends with a lease.
func (c closingChannels) lease(name string, lease signalbox.Lease, err error) {
	if err != nil {
		panic(name + ": " + err.Error()) // a test's own mistake
	}
	c[name+" Done"] = lease.Done()
	c[name+" Bind"] = lease.Bind(context.Background()).Done()
	c[name+" Enter"] = lease.Enter(context.Background()).Done()
	child, cancel := context.WithCancel(lease.Bind(context.Background())) //nolint:gosec // ends with the lease
	_ = cancel
	c[name+" child of Bind"] = child.Done()
}

// endBy requires that everything has ended by at.
func (c closingChannels) endBy(t *testing.T, at time.Time) {
	t.Helper()
	late := time.After(time.Until(at))
	for name, done := range c {
		select {
		case <-done:
		case <-late:
			synctest.Wait()
			select {
			case <-done:
			default:
				require.Fail(t, "not ended", "%s: %v after the host resumed", name, withinASleep)
			}
		}
	}
}

// holdOfEachKind acquires one of each kind, and returns what ends with them.
func holdOfEachKind(t *testing.T, s *signalbox.Session) closingChannels {
	t.Helper()
	ctx, all := t.Context(), make(closingChannels)
	hold := func(name string, options ...signalbox.LockOption) {
		lease, err := reentrant.New(s, name, options...).Lock(ctx)
		all.lease(name, lease, err)
	}
	hold("default")
	hold("two minutes", signalbox.WithRenewedLease(2*time.Minute))
	hold("a day", signalbox.WithRenewedLease(24*time.Hour), signalbox.WithFirstLease(24*time.Hour))
	hold("fixed", signalbox.WithFixedLease(20*time.Minute))
	hold("max hold", signalbox.WithMaxHold(20*time.Minute))
	hold("redisson", signalbox.WithLayout(redisson.Layout()))
	hold("setnx", signalbox.WithLayout(setnx.Layout()))
	lease, err := locktest.Fair().New(s, "fair").Lock(ctx)
	all.lease("fair", lease, err)
	lease, err = rwlock.New(s, "writer").Lock(ctx)
	all.lease("writer", lease, err)
	lease, err = rwlock.New(s, "reader").RLock(ctx)
	all.lease("reader", lease, err)
	lease, err = semaphore.New(s, "permits", 3).Acquire(ctx, 2)
	all.lease("permits", lease, err)
	lease, err = multilock.New(reentrant.New(s, "a"), reentrant.New(s, "b")).Lock(ctx)
	all.lease("multilock", lease, err)

	term, err := election.New(s, "term").Campaign(ctx)
	require.NoError(t, err)
	all["term Done"], all["term Bind"] = term.Done(), term.Bind(ctx).Done()
	running, leading := make(chan context.Context), make(chan context.Context)
	go func() {
		_, _, _ = once.New(s, "once").Do(ctx, func(ctx context.Context, _ signalbox.Lease) ([]byte, error) {
			running <- ctx
			<-ctx.Done()
			return nil, ctx.Err()
		})
	}()
	go func() {
		ctx, cancel := context.WithCancel(ctx)
		_ = election.New(s, "run").Run(ctx, func(lead context.Context, _ election.Term) error {
			leading <- lead
			<-lead.Done()
			cancel()
			return nil
		})
	}()
	owning := make(chan shards.Shard)
	go func() {
		ctx, cancel := context.WithCancel(ctx)
		_ = shards.New(s, "shards", shards.Count(1)).Run(ctx, func(ctx context.Context, shard shards.Shard) error {
			owning <- shard
			<-ctx.Done()
			cancel()
			return nil
		})
	}()
	shard := <-owning
	all["shard Done"], all["shard Bind"] = shard.Done(), shard.Bind(ctx).Done()
	all["once"], all["run"] = (<-running).Done(), (<-leading).Done()
	return all
}

// P2: after a host was suspended, everything that ends with a lease, a term or a run ends by itself, whatever the lease
// is. Nothing but the wall clock shows that time has passed.
func TestASuspendedHostEndsWhatIsOver(t *testing.T) { //nolint:paralleltest // sets the clock of the process
	for name, held := range map[string]time.Duration{"young": 100 * time.Millisecond, "renewed": time.Minute} { //nolint:paralleltest // sets the clock of the process
		t.Run(name, func(t *testing.T) {
			bubbleOf(t, 3, func(r *redlockServers) {
				defer clock.Skew(0)
				r.makeReady()
				sessions, _ := r.process()
				all := holdOfEachKind(r.T, sessions[0])
				lease, err := redlock.New(sessions, "quorum").Lock(r.Context())
				all.lease("redlock", lease, err)
				time.Sleep(held)
				all.endBy(r.T, suspendedFor(25*time.Hour).Add(withinASleep))
			})
		})
	}
}

// P2: a host that was suspended for less than a lease has left renews it at once, on a new connection if the old one was
// forgotten meanwhile, and the lease lasts.
func TestAShortSleepIsMadeUpForAtOnce(t *testing.T) { //nolint:paralleltest // sets the clock of the process
	bubbleOfUsers(t, func(f *fixture) {
		defer clock.Skew(0)
		s, link := f.open()
		lease := atOnce(f.T, reentrant.New(s, "a"))
		time.Sleep(time.Minute)
		asleep := time.Until(lease.Deadline()) - time.Second
		link.forgetConnections()
		resumed := suspendedFor(asleep)
		f.redis.SetTTL(locktest.Key("a"), 2*time.Second) // the server's clock ran on
		time.Sleep(time.Second - time.Millisecond)
		require.NoError(f, lease.Err())
		require.Greater(f, time.Until(lease.Deadline()), 20*time.Second, "not renewed %v after the host resumed", time.Since(resumed))
		select {
		case <-lease.Done():
			require.Fail(f, "the lease was lost")
		case <-time.After(time.Minute):
		}
		require.NoError(f, lease.Unlock())
	})
}

// P1, P3: a host that was suspended within a turn, for less than its hold has left, begins no further use in that turn, nor of an idle hold:
// the server may have lost the hold long ago, though the monotonic clock says that it has just replied.
func TestASuspendedHostEndsItsTurn(t *testing.T) { //nolint:paralleltest // sets the clock of the process
	for _, kept := range []bool{false, true} {
		bubbleOfUsers(t, func(f *fixture) {
			defer clock.Skew(0)
			mu := reentrant.New(f.user().Session, "a")
			if kept {
				mu = f.kept(f.user().Session, "a")
			}
			lease := atOnce(f.T, mu)
			next := locktest.LaterWith(f.Context(), mu.Lock)
			synctest.Wait()
			if kept {
				require.NoError(f, lease.Unlock())
				require.NoError(f, locktest.MustHave(f, next).Unlock())
			}

			suspendedFor(time.Second)
			f.redis.FlushAll()
			held := atOnce(f.T, reentrant.New(f.user().Session, "a"))
			if kept {
				next = locktest.LaterWith(f.Context(), mu.Lock)
			} else {
				_ = lease.Unlock()
			}
			time.Sleep(5 * time.Millisecond)
			synctest.Wait()
			require.Empty(f, next, "it has the lock beside another session")
			require.NoError(f, held.Unlock())
			later := locktest.MustHave(f, next)
			require.Greater(f, later.Token(), held.Token())
			require.NoError(f, later.Unlock())
		})
	}
}

// A connection that works survives: a wall clock that was set forward seems to be a suspended host.
func TestACallUnderWaySurvivesAWallClockSetForward(t *testing.T) { //nolint:paralleltest // sets the clock of the process
	bubbleOfUsers(t, func(f *fixture) {
		defer clock.Skew(0)
		s, link := f.open()
		held, err := reentrant.New(s, "held").Lock(f.Context())
		require.NoError(f, err)
		defer func() { _ = held.Unlock() }()
		link.latency.Store(int64(50 * time.Millisecond))
		clock.Skew(time.Hour)
		for range 20 {
			lease, err := reentrant.New(s, "a").TryLock(f.Context())
			require.NoError(f, err)
			require.NoError(f, lease.Unlock())
		}
	})
}

// P7: what compares the clocks costs the server nothing, and no goroutine when nothing is held.
func TestComparingTheClocksCostsTheServerNothing(t *testing.T) { //nolint:paralleltest // counts goroutines
	bubbleOfUsers(t, func(f *fixture) {
		lease := atOnce(f.T, reentrant.New(f.user().Session, "a", signalbox.WithFixedLease(time.Hour)))
		time.Sleep(10 * time.Second) // it listens on its own channel by then
		before := f.commands.Load()
		time.Sleep(50 * time.Minute)
		require.Equal(f, before, f.commands.Load())
		require.NoError(f, lease.Unlock())
		time.Sleep(10 * time.Second)
		require.Zero(f, goroutines())
	})
}
