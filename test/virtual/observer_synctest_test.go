// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/election"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/multilock"
	"github.com/signalbox-go/signalbox/once"
	"github.com/signalbox-go/signalbox/redlock"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/rwlock"
	"github.com/signalbox-go/signalbox/semaphore"
)

// recordedEvents is what an observer was notified of.
type recordedEvents struct {
	mu     sync.Mutex
	hooks  []string
	events []signalbox.Event
}

type stepKey struct{}

// observer returns an observer with all hooks. Those about a lease check that they get the context of the hooks before.
func (r *recordedEvents) observer(t *testing.T) signalbox.Observer {
	t.Helper()
	hook := func(name, after string) func(context.Context, signalbox.Event) {
		return func(ctx context.Context, e signalbox.Event) {
			step, _ := ctx.Value(stepKey{}).(string)
			if step != after {
				t.Errorf("%s follows %q", name, step)
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			r.hooks, r.events = append(r.hooks, name), append(r.events, e)
		}
	}
	starter := func(name, after string) func(context.Context, signalbox.Event) context.Context {
		return func(ctx context.Context, e signalbox.Event) context.Context {
			hook(name, after)(ctx, e)
			return context.WithValue(ctx, stepKey{}, name)
		}
	}
	return signalbox.Observer{
		Waiting: starter("waiting", ""), Acquired: starter("acquired", "waiting"), Refused: hook("refused", "waiting"),
		Released: hook("released", "acquired"), Lost: hook("lost", "acquired"), Unconfirmed: hook("unconfirmed", "acquired"),
		Forced: hook("forced", ""), Renewed: hook("renewed", ""), Polling: hook("polling", ""), Subscribed: hook("subscribed", ""),
	}
}

// took returns what was recorded, and forgets it.
func (r *recordedEvents) took() (hooks string, events []signalbox.Event) {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	hooks, events = strings.Join(r.hooks, " "), r.events
	r.hooks, r.events = nil, nil
	return hooks, events
}

// observed returns a session with an observer.
func (f *fixture) observed(options ...signalbox.SessionOption) (*signalbox.Session, *recordedEvents) {
	r := new(recordedEvents)
	return f.user(append(options, signalbox.WithObserver(r.observer(f.T)))...).Session, r
}

// ofClass returns the calls of all kinds, by kind, on locks of the class "orders".
func ofClass() map[string]func(ctx context.Context, s *signalbox.Session) (unlock func() error, err error) {
	class := signalbox.WithClass("orders")
	of := func(lease signalbox.Lease, err error) (func() error, error) { return lease.Unlock, err }
	all := map[string]func(context.Context, *signalbox.Session) (func() error, error){
		"semaphore": func(ctx context.Context, s *signalbox.Session) (func() error, error) {
			return of(semaphore.New(s, "a", 3, class).Acquire(ctx, 2))
		},
		"multilock": func(ctx context.Context, s *signalbox.Session) (func() error, error) {
			return of(multilock.New(reentrant.New(s, "a", class), reentrant.New(s, "b", class), fair.New(s, "c", class)).Lock(ctx))
		},
		"election": func(ctx context.Context, s *signalbox.Session) (func() error, error) {
			term, err := election.New(s, "a", class).Campaign(ctx)
			return term.Resign, err
		},
		"once": func(ctx context.Context, s *signalbox.Session) (func() error, error) {
			return func() error { return nil }, doOnce(ctx, once.New(s, "a", class), "", 0).err
		},
	}
	for kind, p := range map[string]locktest.Primitive{
		"reentrant": locktest.Reentrant(), "fair": locktest.Fair(), "rwlock": locktest.Writer(), "rwlock shared": locktest.Reader(),
	} {
		all[kind] = func(ctx context.Context, s *signalbox.Session) (func() error, error) {
			return of(p.New(s, "a", class).Lock(ctx))
		}
	}
	return all
}

// Every kind reports one wait, one acquire and one release for each call, with its own kind and class, and no name.
func TestEveryKindReportsItsCalls(t *testing.T) {
	t.Parallel()
	for kind, call := range ofClass() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			bubbleOfUsers(t, func(f *fixture) {
				s, r := f.observed()
				unlock, err := call(f.Context(), s)
				require.NoError(f, err)
				require.NoError(f, unlock())
				hooks, events := r.took()
				require.Equal(f, "waiting acquired released", hooks)
				for i, e := range events {
					name, shared := strings.CutSuffix(kind, " shared")
					require.Equal(f, signalbox.Event{Kind: name, Shared: shared, Class: "orders"}, signalbox.Event{
						Kind: e.Kind, Shared: e.Shared, Class: e.Class, Name: e.Name, Outcome: e.Outcome, Err: e.Err,
					})
					require.Equal(f, i > 0, e.Token != 0)
					require.Equal(f, i > 0, e.Source == "server")
				}
			})
		})
	}
}

// Permits that are released in parts are reported as released with the last of them.
func TestDividedPermitsAreReleasedOnce(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		s, r := f.observed()
		permits := semaphore.New(s, "a", 3).Weighted(f.Context())
		require.NoError(f, permits.Acquire(f.Context(), 3))
		requireHooks := func(hooks string) {
			seen, _ := r.took()
			require.Equal(f, hooks, seen)
		}
		requireHooks("waiting acquired")
		permits.Release(2)
		requireHooks("")
		permits.Release(1)
		requireHooks("released")
	})
}

// A multilock of a session with an observer and one without is reported as one lock, whichever comes first in its order.
func TestMultilockOfOneObservedSessionReportsOneCall(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		s, r := f.observed()
		for range 5 { // the order is that of the sessions' random IDs
			other, _, endOther := f.session(f.T)
			mu := multilock.New(reentrant.New(other, "a"), reentrant.New(s, "b"))
			for _, lock := range []func(context.Context) (signalbox.Lease, error){mu.Lock, mu.TryLock} {
				lease, err := lock(f.Context())
				require.NoError(f, err)
				require.NoError(f, lease.Unlock())
				hooks, events := r.took()
				require.Equal(f, "waiting acquired released", hooks)
				require.Equal(f, "multilock", events[0].Kind)
			}
			endOther()
		}
	})
}

// A multilock has the class that all its members have, and their names if the observer asks for names.
func TestMultilockReportsTheClassOfAllItsMembers(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		r := new(recordedEvents)
		observer := r.observer(f.T)
		observer.Names = true
		s := f.user(signalbox.WithObserver(observer)).Session
		orders, stock := signalbox.WithClass("orders"), signalbox.WithClass("stock")
		for class, mu := range map[string]*multilock.Lock{
			"orders": multilock.New(reentrant.New(s, "a", orders), reentrant.New(s, "b", orders)),
			"":       multilock.New(reentrant.New(s, "a", orders), reentrant.New(s, "b", stock)),
		} {
			lease := atOnce(f.T, mu)
			require.NoError(f, lease.Unlock())
			_, events := r.took()
			require.Equal(f, class, events[0].Class)
			require.Equal(f, strings.Join(mu.Order(), ","), events[0].Name)
		}
	})
}

// A redlock reports one call for all its servers, to the observer of the first session.
func TestRedlockReportsOneCallForAllServers(t *testing.T) {
	t.Parallel()
	records := make([]*recordedEvents, 3)
	bubbleOf(t, 3, func(rs *redlockServers) {
		sessions := make([]*signalbox.Session, 3)
		for i := range sessions {
			records[i] = new(recordedEvents)
			s, _, end := rs.servers[i].session(rs.T, signalbox.WithObserver(records[i].observer(rs.T)))
			defer end()
			sessions[i] = s
		}
		lease, err := redlock.New(sessions, "a", signalbox.WithClass("orders")).Lock(rs.Context())
		require.NoError(rs, err)
		require.NoError(rs, lease.Unlock())
		hooks, events := records[0].took()
		require.Equal(rs, "waiting acquired released", hooks)
		require.Equal(rs, "redlock orders", events[0].Kind+" "+events[0].Class)
		for _, r := range records[1:] {
			hooks, _ = r.took()
			require.Empty(rs, hooks)
		}
	})
}

// The events say how long a call waited and a lease was held, and from where the lock was granted.
func TestEventsSayHowALockWasGrantedAndHowLongItTook(t *testing.T) {
	t.Parallel()
	const use = 200 * time.Microsecond
	bubbleOfUsers(t, func(f *fixture) {
		s, r := f.observed()
		other, err := reentrant.New(f.user().Session, "a").Lock(f.Context())
		require.NoError(f, err)
		mu := reentrant.New(s, "a")
		take := func() { // holds it within one turn, which is short behind a long wait
			lease := atOnce(f.T, mu)
			again, err := mu.Lock(lease.Enter(f.Context()))
			require.NoError(f, err)
			require.NoError(f, again.Unlock())
			time.Sleep(use)
			require.NoError(f, lease.Unlock())
		}
		var done sync.WaitGroup
		for range 2 {
			done.Go(take)
			synctest.Wait()
		}
		time.Sleep(2 * time.Second)
		require.NoError(f, other.Unlock())
		done.Wait()
		hooks, events := r.took()
		require.ElementsMatch(f, []string{"waiting", "acquired", "released", "waiting", "acquired", "released"},
			slices.DeleteFunc(strings.Fields(hooks), func(hook string) bool { return hook == "renewed" }))
		sources := make(map[string]signalbox.Event)
		for _, e := range events {
			if e.Held > 0 {
				require.InDelta(f, use, e.Held, float64(use/2))
				sources[e.Source] = e
			}
		}
		require.Len(f, sources, 2)
		for source, after := range map[string]time.Duration{"queue": 2 * time.Second, "process": 2*time.Second + use} {
			require.InDelta(f, after, sources[source].Waited, float64(slack), source)
		}
		require.Equal(f, sources["queue"].Token+1, sources["process"].Token)
	})
}

// A call that gets no lock is refused, with why in one word.
func TestAFailedCallIsRefusedWithItsOutcome(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		s, r := f.observed()
		elsewhere := f.user().Session
		require.NoError(f, no(reentrant.New(elsewhere, "a").Lock(f.Context())))
		require.NoError(f, no(fair.New(elsewhere, "b").Lock(f.Context())))
		mu := reentrant.New(s, "a")
		for outcome, call := range map[string]func() (signalbox.Lease, error){
			"held": func() (signalbox.Lease, error) { return mu.TryLock(f.Context()) },
			"timeout": func() (signalbox.Lease, error) {
				ctx, cancel := context.WithTimeout(f.Context(), time.Second)
				defer cancel()
				return mu.Lock(ctx)
			},
			"canceled": func() (signalbox.Lease, error) {
				ctx, cancel := context.WithCancel(f.Context())
				time.AfterFunc(time.Second, cancel)
				return mu.Lock(ctx)
			},
			"wrong_kind": func() (signalbox.Lease, error) { return rwlock.New(s, "b").TryLock(f.Context()) },
		} {
			require.Error(f, no(call()))
			hooks, events := r.took()
			require.Equal(f, "waiting refused", hooks, outcome)
			require.Equal(f, outcome, events[1].Outcome)
			require.Equal(f, events[1].Waited >= 900*time.Millisecond, outcome == "timeout" || outcome == "canceled", outcome)
		}
	})
}

// A loss is reported once, with its cause and with how long the key could still live.
func TestALossIsReportedWithItsCauseAndMargin(t *testing.T) {
	t.Parallel()
	for outcome, lose := range map[string]func(f *fixture, s *signalbox.Session, link *wire){
		"expired": func(_ *fixture, _ *signalbox.Session, link *wire) { link.goSilent(); time.Sleep(4 * time.Second) },
		"gone": func(f *fixture, s *signalbox.Session, _ *wire) {
			require.NoError(f, reentrant.New(s, "a").ForceUnlock(f.Context()))
			time.Sleep(time.Second)
		},
		"max_hold": func(*fixture, *signalbox.Session, *wire) { time.Sleep(time.Minute) },
		"closed":   func(f *fixture, s *signalbox.Session, _ *wire) { _ = s.Close(locktest.Ended()) },
	} {
		t.Run(outcome, func(t *testing.T) {
			t.Parallel()
			bubbleOfUsers(t, func(f *fixture) {
				r := new(recordedEvents)
				s, link := f.open(signalbox.WithObserver(r.observer(f.T)), quiet)
				var options []signalbox.LockOption
				if outcome == "max_hold" {
					options = []signalbox.LockOption{signalbox.WithMaxHold(30 * time.Second)}
				}
				lease := atOnce(f.T, reentrant.New(s, "a", options...))
				time.Sleep(50 * time.Millisecond)
				lose(f, s, link)
				require.Error(f, lease.Unlock())
				hooks, events := r.took()
				require.Equal(f, 1, strings.Count(hooks, "lost"), hooks)
				require.Zero(f, strings.Count(hooks, "released"), hooks)
				e := events[slices.Index(strings.Fields(hooks), "lost")]
				require.Equal(f, outcome, e.Outcome)
				require.ErrorIs(f, lease.Err(), e.Err)
				require.Positive(f, e.Held)
				if outcome == "gone" {
					require.Zero(f, e.Left)
					require.Equal(f, 1, strings.Count(hooks, "forced"), hooks)
				} else {
					require.Positive(f, e.Left, "the lease ends before its key can")
				}
			})
		})
	}
}

// A release without a reply is reported as such, and the lease as released.
func TestAnUnconfirmedReleaseIsReported(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		r := new(recordedEvents)
		s, link := f.open(signalbox.WithObserver(r.observer(f.T)), quiet)
		lease := atOnce(f.T, reentrant.New(s, "a"))
		link.goSilent()
		require.ErrorIs(f, lease.Unlock(), signalbox.ErrUnconfirmed)
		hooks, events := r.took()
		require.Contains(f, hooks, "unconfirmed released")
		require.Equal(f, "no_reply", events[slices.Index(strings.Fields(hooks), "unconfirmed")].Outcome)
	})
}

// Renewals in time report no delay. Those to a server that is away report a growing delay.
func TestRenewalsReportHowLateTheyAre(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		r := new(recordedEvents)
		s, link := f.open(signalbox.WithObserver(r.observer(f.T)), quiet)
		require.NoError(f, no(reentrant.New(s, "a").Lock(f.Context())))
		require.NoError(f, no(reentrant.New(s, "b").Lock(f.Context())))
		time.Sleep(time.Minute)
		hooks, events := r.took()
		require.GreaterOrEqual(f, strings.Count(hooks, "renewed"), 6)
		for i, hook := range strings.Fields(hooks) {
			if e := events[i]; hook == "renewed" {
				require.NoError(f, e.Err)
				require.Less(f, e.Lag, slack)
				require.Contains(f, []time.Duration{3 * time.Second, 30 * time.Second}, e.Lease)
				require.Contains(f, []int{1, 2}, e.Leases)
			}
		}
		link.goSilent()
		time.Sleep(31 * time.Second)
		hooks, events = r.took()
		var last time.Duration
		for i, hook := range strings.Fields(hooks) {
			if e := events[i]; hook == "renewed" {
				require.Equal(f, "no_reply", e.Outcome)
				last = max(last, e.Lag)
			}
		}
		require.Greater(f, last, 10*time.Second, "more than a third of the lease")
	})
}

// A hook that blocks delays its own call, and neither renewals nor other calls.
func TestABlockedHookDelaysNoOtherCall(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		blocked := make(chan struct{})
		defer close(blocked)
		block := func(_ context.Context, e signalbox.Event) {
			if e.Class == "slow" || e.Class == "" {
				<-blocked
			}
		}
		s, link := f.open(quiet, signalbox.WithObserver(signalbox.Observer{
			Released: block, Lost: block, Renewed: block, Polling: block, Subscribed: block,
		}))
		slow := atOnce(f.T, reentrant.New(s, "a", signalbox.WithClass("slow")))
		kept := atOnce(f.T, reentrant.New(s, "kept", signalbox.WithClass("quick")))
		go func() { _ = slow.Unlock() }()
		synctest.Wait()
		next, err := reentrant.New(s, "a", signalbox.WithClass("quick")).Lock(f.Context())
		require.NoError(f, err, "it was released before the hook was called")
		link.cut()
		time.Sleep(5 * time.Minute)
		require.NoError(f, reentrant.New(s, "kept").ForceUnlock(f.Context()))
		time.Sleep(5 * time.Minute)
		require.ErrorIs(f, kept.Err(), signalbox.ErrLost)
		require.NoError(f, next.Err(), "it is renewed")
		require.NoError(f, next.Unlock())
	})
}

// Close returns after the hooks of losses have, those that it caused itself included. A hook that never returns is waited
// for no longer than ctx, or for the second of the releases.
func TestCloseWaitsForTheHooksOfLosses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name              string
		hook, limit, took time.Duration
		left              bool // a lease, for Close to end
	}{
		{name: "lost before", hook: 300 * time.Millisecond, limit: time.Minute, took: 300 * time.Millisecond},
		{name: "lost before, for longer", hook: time.Hour, limit: 2 * time.Second, took: 2 * time.Second},
		{name: "lost by Close", hook: 300 * time.Millisecond, left: true, took: 300 * time.Millisecond},
		{name: "lost by Close, for longer", hook: time.Hour, left: true, took: time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			bubbleOfUsers(t, func(f *fixture) {
				var over atomic.Bool
				s := f.user(quiet, signalbox.WithObserver(signalbox.Observer{Lost: func(context.Context, signalbox.Event) {
					time.Sleep(c.hook)
					over.Store(true)
				}})).Session
				mu := reentrant.New(s, "a")
				require.NoError(f, no(mu.Lock(f.Context())))
				if !c.left {
					require.NoError(f, mu.ForceUnlock(f.Context()))
					synctest.Wait()
				}
				ctx, cancel := context.WithTimeout(f.Context(), c.limit)
				defer cancel()
				begun := time.Now()
				require.Equal(f, c.left, s.Close(ctx) != nil)
				require.InDelta(f, c.took, time.Since(begun), float64(50*time.Millisecond))
				require.Equal(f, c.hook < time.Hour, over.Load())
				time.Sleep(time.Hour)
			})
		})
	}
}
