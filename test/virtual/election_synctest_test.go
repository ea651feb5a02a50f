// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/election"
	"github.com/signalbox-go/signalbox/fair"
)

// valueOf is the key of the value that the leader of an election has set.
func valueOf(name string) string { return "sb:{" + name + "}:leader" }

// leads campaigns, and returns the term.
func leads(f *fixture, e *election.Election) election.Term {
	f.Helper()
	term, err := e.Campaign(f.Context())
	require.NoError(f, err)
	return term
}

// candidate campaigns on another goroutine, and says when it leads.
func candidate(f *fixture, e *election.Election) <-chan election.Term {
	led := make(chan election.Term, 1)
	go func() {
		term, err := e.Campaign(f.Context())
		if err == nil {
			led <- term
		}
	}()
	time.Sleep(100 * time.Millisecond)
	return led
}

// leaderChange is something that an observer saw.
type leaderChange struct {
	election.Leader

	err error
	at  time.Time
}

// observing observes until the context ends.
func observing(ctx context.Context, e *election.Election) <-chan leaderChange {
	seen := make(chan leaderChange, 1000)
	go func() {
		defer close(seen)
		for l, err := range e.Observe(ctx) {
			seen <- leaderChange{l, err, time.Now()}
		}
	}()
	return seen
}

// P2: a leader that stepped down keeps the lease until its work has returned, if the server is back before the lease has
// ended. Then Run resigns, and campaigns again behind the others.
func TestLeaderThatSteppedDownKeepsTheLeaseUntilItReturns(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		user, other := f.user(), f.user()
		e := election.New(user.Session, "a")
		terms, stops, mayStop := make(chan election.Term, 10), make(chan struct{}, 10), make(chan struct{})
		ctx, cancel := context.WithCancel(f.Context())
		returned := make(chan error, 1)
		go func() {
			returned <- e.Run(ctx, func(ctx context.Context, term election.Term) error {
				terms <- term
				<-ctx.Done()
				stops <- struct{}{}
				<-mayStop
				return nil
			})
		}()
		first := <-terms
		next := candidate(f, election.New(other.Session, "a"))
		user.wire.goSilent()
		<-stops
		user.wire.heal()
		time.Sleep(time.Minute) // four leases
		require.Empty(f, next)
		require.ErrorIs(f, first.Err(), signalbox.ErrLost)
		require.ErrorIs(f, e.Health(f.Context()), signalbox.ErrLost, "its work still runs")
		mayStop <- struct{}{}
		second := <-next
		require.Greater(f, second.Token(), first.Token())
		require.NoError(f, e.Health(f.Context()))
		require.Empty(f, terms)
		require.NoError(f, second.Resign())
		third := <-terms
		require.Greater(f, third.Token(), second.Token())
		cancel()
		close(mayStop)
		require.ErrorIs(f, <-returned, context.Canceled)
	})
}

// P10: an observer whose server is silent says so after 15 s, and continues when the server is back.
func TestObserverSaysThatTheServerIsSilent(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		term := leads(f, election.New(f.user().Session, "a", election.Value("x")))
		time.Sleep(100 * time.Millisecond) // its value is written just after Campaign has returned
		user := f.user()
		ctx, cancel := context.WithCancel(f.Context())
		seen := observing(ctx, election.New(user.Session, "a"))
		require.Equal(f, term.Token(), (<-seen).Token)
		for range 3 {
			time.Sleep(10 * time.Second)
			began := time.Now()
			user.wire.goSilent()
			s := <-seen
			require.ErrorIs(f, s.err, signalbox.ErrNoReply)
			require.Equal(f, election.Leader{}, s.Leader)
			require.InDelta(f, 15, s.at.Sub(began).Seconds(), 4)
			time.Sleep(time.Minute)
			require.Empty(f, seen, "once")
			user.wire.heal()
			require.Equal(f, term.Token(), (<-seen).Token)
		}
		cancel()
		require.ErrorIs(f, (<-seen).err, context.Canceled)
		_, more := <-seen
		require.False(f, more)
	})
}

// P7: Run pauses longer after each term that is lost young, up to a second, and hardly after one that lasted.
func TestRunPausesLongerAfterEachLoss(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		mu := fair.New(f.user().Session, "a")
		ctx, cancel := context.WithCancel(f.Context())
		terms := make(chan election.Term)
		returned := f.later(func() error {
			return election.New(f.user().Session, "a").Run(ctx, func(ctx context.Context, term election.Term) error {
				terms <- term
				<-ctx.Done()
				return nil
			})
		})
		again := func(lasted time.Duration) time.Duration {
			term := <-terms
			time.Sleep(lasted)
			require.NoError(f, mu.ForceUnlock(f.Context()))
			<-term.Done()
			began := time.Now()
			term = <-terms
			took := time.Since(began)
			go func() { terms <- term }() // for the next call
			return took
		}
		first := again(0)
		require.Less(f, first, 100*time.Millisecond)
		var last time.Duration
		for range 12 {
			last = again(0)
			require.LessOrEqual(f, last, 1100*time.Millisecond)
		}
		require.GreaterOrEqual(f, last, 400*time.Millisecond)
		require.Less(f, again(election.DefaultLease+time.Second), 100*time.Millisecond)
		<-terms
		cancel()
		require.ErrorIs(f, <-returned, context.Canceled)
	})
}

// Each new leader is reported, to every candidate, also if all have one label, and after a right was missing for a moment. Leading says which
// of them leads.
func TestEachNewLeaderIsReported(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		const candidates = 4
		var denied atomic.Bool
		f.refusesScripts(func(string, []string) string {
			if denied.Load() {
				return "NOPERM User limited has no permissions to run the 'evalsha' command"
			}
			return ""
		})
		var leaders [candidates]atomic.Int64
		var all [candidates]*election.Election
		var stops [candidates]func()
		for i := range candidates {
			all[i] = election.New(f.user(signalbox.WithLabel("api")).Session, "a")
			ctx, cancel := context.WithCancel(f.Context())
			ended := f.later(func() error {
				return all[i].RunCallbacks(ctx, election.Callbacks{
					OnStartedLeading: func(ctx context.Context) { <-ctx.Done() },
					OnStoppedLeading: func() {},
					OnNewLeader:      func(string) { leaders[i].Add(1) },
				})
			})
			stops[i] = func() {
				cancel()
				require.ErrorIs(f, <-ended, context.Canceled)
			}
			if i == 0 {
				time.Sleep(3 * time.Second)
				denied.Store(true)
				time.Sleep(1500 * time.Millisecond)
				denied.Store(false)
				time.Sleep(2 * time.Second)
			}
		}
		for n := range candidates + 1 { // the first one leads again at last
			time.Sleep(5 * time.Second)
			leads := n % candidates
			for i, e := range all {
				require.Equal(f, leads == i, e.Leading())
				if i == 0 || i >= n {
					require.EqualValues(f, n+1, leaders[i].Load(), "what candidate %d saw", i)
				}
			}
			if n == 0 {
				require.NoError(f, fair.New(f.user().Session, "a").ForceUnlock(f.Context()))
				continue
			}
			stops[leads]()
			require.False(f, all[leads].Leading())
		}
	})
}

// An observer never sees a leader before the value that the leader begins with, and sees each that lasts.
func TestObserversSeeALeaderWithItsValue(t *testing.T) {
	t.Parallel()
	for _, latency := range []time.Duration{0, 3 * time.Millisecond, 200 * time.Millisecond} {
		bubbleOfUsers(t, func(f *fixture) {
			const candidates = 10
			ctx, cancel := context.WithCancel(f.Context())
			var seen []string
			observer, link := f.open()
			link.latency.Store(int64(latency / 10))
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				for l, err := range election.New(observer, "a").Observe(ctx) {
					switch {
					case err != nil, l == election.Leader{}:
					case l.Value != l.Label:
						f.Errorf("the leader %q has the value %q", l.Label, l.Value)
					default:
						seen = append(seen, l.Value)
					}
				}
			}()
			var all sync.WaitGroup
			for i := range candidates {
				label := fmt.Sprint("candidate ", i)
				s, link := f.open(signalbox.WithLabel(label))
				link.latency.Store(int64(latency))
				all.Go(func() {
					term, err := election.New(s, "a", election.Value(label)).Campaign(f.Context())
					if err != nil {
						f.Error(err)
						return
					}
					time.Sleep(3 * time.Second)
					_ = term.Resign()
				})
			}
			all.Wait()
			synctest.Wait()
			cancel()
			<-ended
			require.Len(f, slices.Compact(seen), candidates)
		})
	}
}

// P5: a value that was lost with its key is back within a lease, and keeps its number. Until then observers see the leader without it, a
// poll later.
func TestLostValueComesBackWithinALease(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		e := election.New(f.user().Session, "a", election.Value("first"))
		term := leads(f, e)
		require.NoError(f, term.SetValue(f.Context(), "second"))
		for range 10 {
			time.Sleep(7 * time.Second)
			f.redis.Del(valueOf("a"))
			l, err := e.Leader(f.Context())
			require.NoError(f, err)
			require.Equal(f, term.Token(), l.Token)
			require.Empty(f, l.Value)
			began := time.Now()
			for l, err := range e.Observe(f.Context()) {
				require.NoError(f, err)
				require.Equal(f, term.Token(), l.Token)
				break
			}
			require.LessOrEqual(f, time.Since(began), 1200*time.Millisecond)
			time.Sleep(election.DefaultLease)
			l, err = e.Leader(f.Context())
			require.NoError(f, err)
			require.Equal(f, "second", l.Value)
		}
	})
}

// P2: in whichever moment of its first two seconds, or later, a term loses the server, it ends StepDown before its lease can end
// there, also if StepDown is half of the lease. A term whose candidate waited has the whole lease a round trip after its
// beginning. If it loses the server before, it ends the same share of what it has before its end.
func TestYoungTermStepsDownBeforeItsLeaseCanEnd(t *testing.T) {
	t.Parallel()
	const latency, lease = 2 * time.Millisecond, election.DefaultLease
	for name, c := range map[string]struct {
		options []signalbox.LockOption
		before  time.Duration
		share   time.Duration // the divisor of a lease that is shorter than twice before
		first   time.Duration // the lease of a term whose candidate did not wait
	}{
		"Default": {nil, 5 * time.Second, 3, lease},
		"Half":    {[]signalbox.LockOption{election.StepDown(lease / 2)}, lease / 2, 2, lease},
		"Quarter": {[]signalbox.LockOption{election.StepDown(lease / 4)}, lease / 4, 4, lease},
		"None":    {[]signalbox.LockOption{election.StepDown(0)}, 0, lease, lease},
		"FirstLease": {
			[]signalbox.LockOption{election.StepDown(1500 * time.Millisecond), signalbox.WithFirstLease(3 * time.Second)},
			1500 * time.Millisecond, 10, 3 * time.Second,
		},
		"FirstLeaseAndDefault": {[]signalbox.LockOption{signalbox.WithFirstLease(6 * time.Second)}, 2 * time.Second, 3, 6 * time.Second},
	} {
		for _, age := range []time.Duration{0, 10 * latency, 300 * time.Millisecond, 700 * time.Millisecond, 2 * time.Second, lease * 71 / 7} {
			for _, queued := range []bool{false, true} {
				bubbleOfUsers(t, func(f *fixture) {
					what := fmt.Sprint(name, age, queued)
					user, other := f.user(), f.user()
					user.wire.latency.Store(int64(latency))
					e := election.New(user.Session, "a", c.options...)
					var term election.Term
					if queued {
						before := leads(f, election.New(other.Session, "a"))
						led := candidate(f, e)
						time.Sleep(10700 * time.Millisecond) // in the middle between two polls
						require.NoError(f, before.Resign())
						term = <-led
					} else {
						term = leads(f, e)
					}
					time.Sleep(age)
					if queued && age > 0 && c.first == lease {
						require.Greater(f, f.left("a"), lease-min(age, lease/3), what)
					}
					user.wire.goSilent()
					had, deadline, ctx := f.left("a"), term.Deadline(), term.Bind(f.Context())
					<-ctx.Done()
					left := f.left("a")
					require.ErrorIs(f, term.Err(), signalbox.ErrLost, what)
					require.ErrorIs(f, context.Cause(ctx), signalbox.ErrLost, what)
					require.True(f, age < lease || time.Since(deadline).Abs() <= 2*time.Millisecond, what)
					require.Zero(f, term.Deadline())
					require.GreaterOrEqual(f, left, min(c.before, had/c.share), what)
					if !queued {
						require.GreaterOrEqual(f, left, c.before, what)
					}
					if !queued && c.first == lease { // no renewal was on its way
						require.LessOrEqual(f, left, c.before+lease/25, "no earlier than it has to: "+what)
					}
					require.ErrorIs(f, term.Resign(), signalbox.ErrLost)
				})
			}
		}
	}
}
