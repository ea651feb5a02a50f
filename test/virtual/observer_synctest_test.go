// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"errors"
	"fmt"
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
func (w *fixture) observed(options ...signalbox.SessionOption) (*signalbox.Session, *recordedEvents, func()) {
	r := new(recordedEvents)
	s, _, end := w.session(w.T, append(options, signalbox.WithObserver(r.observer(w.T)))...)
	return s, r, end
}

// ofClass returns the calls of all kinds, by kind, on locks of the class "orders".
func ofClass() map[string]func(ctx context.Context, s *signalbox.Session) (unlock func() error, err error) {
	class := signalbox.WithClass("orders")
	of := func(lease signalbox.Lease, err error) (func() error, error) { return lease.Unlock, err }
	return map[string]func(context.Context, *signalbox.Session) (func() error, error){
		"reentrant": func(ctx context.Context, s *signalbox.Session) (func() error, error) {
			return of(reentrant.New(s, "a", class).Lock(ctx))
		},
		"fair": func(ctx context.Context, s *signalbox.Session) (func() error, error) {
			return of(fair.New(s, "a", class).TryLock(ctx))
		},
		"rwlock": func(ctx context.Context, s *signalbox.Session) (func() error, error) {
			return of(rwlock.New(s, "a", class).Lock(ctx))
		},
		"rwlock shared": func(ctx context.Context, s *signalbox.Session) (func() error, error) {
			return of(rwlock.New(s, "a", class).TryRLock(ctx))
		},
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
			_, _, err := once.New(s, "a", class).Do(ctx, func(context.Context, signalbox.Lease) ([]byte, error) { return nil, nil })
			return func() error { return nil }, err
		},
	}
}

// Every kind reports one wait, one acquire and one release for each call, with its own kind and class, and no name.
func TestEveryKindReportsItsCalls(t *testing.T) {
	t.Parallel()
	for kind, call := range ofClass() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(w *fixture) {
				s, r, end := w.observed()
				defer end()
				unlock, err := call(w.Context(), s)
				require.NoError(w, err)
				require.NoError(w, unlock())
				hooks, events := r.took()
				require.Equal(w, "waiting acquired released", hooks)
				for i, e := range events {
					name, shared := strings.CutSuffix(kind, " shared")
					require.Equal(w, signalbox.Event{Kind: name, Shared: shared, Class: "orders"}, signalbox.Event{
						Kind: e.Kind, Shared: e.Shared, Class: e.Class, Name: e.Name, Outcome: e.Outcome, Err: e.Err,
					})
					require.Equal(w, i > 0, e.Token != 0)
					require.Equal(w, i > 0, e.Source == "server")
				}
			})
		})
	}
}

// Permits that are released in parts are reported as released with the last of them.
func TestDividedPermitsAreReleasedOnce(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *fixture) {
		s, r, end := w.observed()
		defer end()
		permits := semaphore.New(s, "a", 3).Weighted(w.Context())
		require.NoError(w, permits.Acquire(w.Context(), 3))
		requireHooks := func(hooks string) {
			seen, _ := r.took()
			require.Equal(w, hooks, seen)
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
	bubble(t, func(w *fixture) {
		s, r, end := w.observed()
		defer end()
		for range 5 { // the order is that of the sessions' random IDs
			other, _, endOther := w.session(w.T)
			mu := multilock.New(reentrant.New(other, "a"), reentrant.New(s, "b"))
			for _, lock := range []func(context.Context) (signalbox.Lease, error){mu.Lock, mu.TryLock} {
				lease, err := lock(w.Context())
				require.NoError(w, err)
				require.NoError(w, lease.Unlock())
				hooks, events := r.took()
				require.Equal(w, "waiting acquired released", hooks)
				require.Equal(w, "multilock", events[0].Kind)
			}
			endOther()
		}
	})
}

// A multilock has the class that all its members have, and their names if the observer asks for names.
func TestMultilockReportsTheClassOfAllItsMembers(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *fixture) {
		r := new(recordedEvents)
		observer := r.observer(w.T)
		observer.Names = true
		s, _, end := w.session(w.T, signalbox.WithObserver(observer))
		defer end()
		orders, stock := signalbox.WithClass("orders"), signalbox.WithClass("stock")
		for class, mu := range map[string]*multilock.Lock{
			"orders": multilock.New(reentrant.New(s, "a", orders), reentrant.New(s, "b", orders)),
			"":       multilock.New(reentrant.New(s, "a", orders), reentrant.New(s, "b", stock)),
		} {
			lease, err := mu.Lock(w.Context())
			require.NoError(w, err)
			require.NoError(w, lease.Unlock())
			_, events := r.took()
			require.Equal(w, class, events[0].Class)
			require.Equal(w, strings.Join(mu.Order(), ","), events[0].Name)
		}
	})
}

// A redlock reports one call for all its servers, to the observer of the first session.
func TestRedlockReportsOneCallForAllServers(t *testing.T) {
	t.Parallel()
	records := make([]*recordedEvents, 3)
	bubbleOf(t, 3, func(q *redlockServers) {
		sessions := make([]*signalbox.Session, 3)
		for i := range sessions {
			records[i] = new(recordedEvents)
			s, _, end := q.servers[i].session(q.T, signalbox.WithObserver(records[i].observer(q.T)))
			defer end()
			sessions[i] = s
		}
		lease, err := redlock.New(sessions, "a", signalbox.WithClass("orders")).Lock(q.Context())
		require.NoError(q, err)
		require.NoError(q, lease.Unlock())
		hooks, events := records[0].took()
		require.Equal(q, "waiting acquired released", hooks)
		require.Equal(q, "redlock orders", events[0].Kind+" "+events[0].Class)
		for _, r := range records[1:] {
			hooks, _ = r.took()
			require.Empty(q, hooks)
		}
	})
}

// The events say how long a call waited and a lease was held, and from where the lock was granted.
func TestEventsSayHowALockWasGrantedAndHowLongItTook(t *testing.T) {
	t.Parallel()
	const use = 200 * time.Microsecond
	bubble(t, func(w *fixture) {
		s, r, end := w.observed()
		defer end()
		elsewhere, _, endElsewhere := w.session(w.T)
		defer endElsewhere()
		other, err := reentrant.New(elsewhere, "a").Lock(w.Context())
		require.NoError(w, err)
		mu := reentrant.New(s, "a")
		take := func() { // holds it within one turn, which is short behind a long wait
			lease, err := mu.Lock(w.Context())
			require.NoError(w, err)
			again, err := mu.Lock(lease.Enter(w.Context()))
			require.NoError(w, err)
			require.NoError(w, again.Unlock())
			time.Sleep(use)
			require.NoError(w, lease.Unlock())
		}
		var done sync.WaitGroup
		for range 2 {
			done.Go(take)
			synctest.Wait()
		}
		time.Sleep(2 * time.Second)
		require.NoError(w, other.Unlock())
		done.Wait()
		hooks, events := r.took()
		require.ElementsMatch(w, []string{"waiting", "acquired", "released", "waiting", "acquired", "released"},
			slices.DeleteFunc(strings.Fields(hooks), func(hook string) bool { return hook == "renewed" }))
		sources := make(map[string]signalbox.Event)
		for _, e := range events {
			if e.Held > 0 {
				require.InDelta(w, use, e.Held, float64(use/2))
				sources[e.Source] = e
			}
		}
		require.Len(w, sources, 2)
		for source, after := range map[string]time.Duration{"queue": 2 * time.Second, "process": 2*time.Second + use} {
			require.InDelta(w, after, sources[source].Waited, float64(slack), source)
		}
		require.Equal(w, sources["queue"].Token+1, sources["process"].Token)
	})
}

// A call that gets no lock is refused, with why in one word.
func TestAFailedCallIsRefusedWithItsOutcome(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *fixture) {
		s, r, end := w.observed()
		defer end()
		elsewhere, _, endElsewhere := w.session(w.T)
		defer endElsewhere()
		_, err := reentrant.New(elsewhere, "a").Lock(w.Context())
		require.NoError(w, err)
		_, err = fair.New(elsewhere, "b").Lock(w.Context())
		require.NoError(w, err)
		mu := reentrant.New(s, "a")
		for outcome, call := range map[string]func() (signalbox.Lease, error){
			"held": func() (signalbox.Lease, error) { return mu.TryLock(w.Context()) },
			"timeout": func() (signalbox.Lease, error) {
				ctx, cancel := context.WithTimeout(w.Context(), time.Second)
				defer cancel()
				return mu.Lock(ctx)
			},
			"canceled": func() (signalbox.Lease, error) {
				ctx, cancel := context.WithCancel(w.Context())
				time.AfterFunc(time.Second, cancel)
				return mu.Lock(ctx)
			},
			"wrong_kind": func() (signalbox.Lease, error) { return rwlock.New(s, "b").TryLock(w.Context()) },
		} {
			_, err := call()
			require.Error(w, err)
			hooks, events := r.took()
			require.Equal(w, "waiting refused", hooks, outcome)
			require.Equal(w, outcome, events[1].Outcome)
			require.Equal(w, events[1].Waited >= 900*time.Millisecond, outcome == "timeout" || outcome == "canceled", outcome)
		}
	})
}

// A loss is reported once, with its cause and with how long the key could still live.
func TestALossIsReportedWithItsCauseAndMargin(t *testing.T) {
	t.Parallel()
	for outcome, lose := range map[string]func(w *fixture, s *signalbox.Session, link *wire){
		"expired": func(_ *fixture, _ *signalbox.Session, link *wire) { link.goSilent(); time.Sleep(4 * time.Second) },
		"gone": func(w *fixture, s *signalbox.Session, _ *wire) {
			require.NoError(w, reentrant.New(s, "a").ForceUnlock(w.Context()))
			time.Sleep(time.Second)
		},
		"max_hold": func(*fixture, *signalbox.Session, *wire) { time.Sleep(time.Minute) },
		"closed":   func(w *fixture, s *signalbox.Session, _ *wire) { _ = s.Close(endedContext()) },
	} {
		t.Run(outcome, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(w *fixture) {
				r := new(recordedEvents)
				s, link, end := w.session(w.T, signalbox.WithObserver(r.observer(w.T)), quiet)
				defer end()
				var options []signalbox.LockOption
				if outcome == "max_hold" {
					options = []signalbox.LockOption{signalbox.WithMaxHold(30 * time.Second)}
				}
				lease, err := reentrant.New(s, "a", options...).Lock(w.Context())
				require.NoError(w, err)
				time.Sleep(50 * time.Millisecond)
				lose(w, s, link)
				require.Error(w, lease.Unlock())
				hooks, events := r.took()
				require.Equal(w, 1, strings.Count(hooks, "lost"), hooks)
				require.Zero(w, strings.Count(hooks, "released"), hooks)
				e := events[slices.Index(strings.Fields(hooks), "lost")]
				require.Equal(w, outcome, e.Outcome)
				require.ErrorIs(w, lease.Err(), e.Err)
				require.Positive(w, e.Held)
				if outcome == "gone" {
					require.Zero(w, e.Left)
					require.Equal(w, 1, strings.Count(hooks, "forced"), hooks)
				} else {
					require.Positive(w, e.Left, "the lease ends before its key can")
				}
			})
		})
	}
}

// A release without a reply is reported as such, and the lease as released.
func TestAnUnconfirmedReleaseIsReported(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *fixture) {
		r := new(recordedEvents)
		s, link, end := w.session(w.T, signalbox.WithObserver(r.observer(w.T)), quiet)
		defer end()
		lease, err := reentrant.New(s, "a").Lock(w.Context())
		require.NoError(w, err)
		link.goSilent()
		require.ErrorIs(w, lease.Unlock(), signalbox.ErrUnconfirmed)
		hooks, events := r.took()
		require.Contains(w, hooks, "unconfirmed released")
		require.Equal(w, "no_reply", events[slices.Index(strings.Fields(hooks), "unconfirmed")].Outcome)
	})
}

// Renewals in time report no delay. Those to a server that is away report a growing delay.
func TestRenewalsReportHowLateTheyAre(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *fixture) {
		r := new(recordedEvents)
		s, link, end := w.session(w.T, signalbox.WithObserver(r.observer(w.T)), quiet)
		defer end()
		_, err := reentrant.New(s, "a").Lock(w.Context())
		require.NoError(w, err)
		_, err = reentrant.New(s, "b").Lock(w.Context())
		require.NoError(w, err)
		time.Sleep(time.Minute)
		hooks, events := r.took()
		require.GreaterOrEqual(w, strings.Count(hooks, "renewed"), 6)
		for i, hook := range strings.Fields(hooks) {
			if e := events[i]; hook == "renewed" {
				require.NoError(w, e.Err)
				require.Less(w, e.Lag, slack)
				require.Contains(w, []time.Duration{3 * time.Second, 30 * time.Second}, e.Lease)
				require.Contains(w, []int{1, 2}, e.Leases)
			}
		}
		link.goSilent()
		time.Sleep(31 * time.Second)
		hooks, events = r.took()
		var last time.Duration
		for i, hook := range strings.Fields(hooks) {
			if e := events[i]; hook == "renewed" {
				require.Equal(w, "no_reply", e.Outcome)
				last = max(last, e.Lag)
			}
		}
		require.Greater(w, last, 10*time.Second, "more than a third of the lease")
	})
}

// A subscription that is lost is reported once, and so is that it is back.
func TestPollingIsReportedUntilMessagesArriveAgain(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *fixture) {
		r := new(recordedEvents)
		s, link, end := w.session(w.T, signalbox.WithObserver(r.observer(w.T)), quiet)
		defer end()
		_, err := reentrant.New(s, "a").Lock(w.Context())
		require.NoError(w, err)
		time.Sleep(time.Second) // it listens for ForceUnlock by now
		r.took()
		link.cut()
		time.Sleep(20 * time.Second)
		hooks, events := r.took()
		reports := slices.DeleteFunc(strings.Fields(hooks), func(hook string) bool { return hook == "renewed" })
		require.Equal(w, []string{"polling", "subscribed"}, reports)
		require.Error(w, events[slices.Index(strings.Fields(hooks), "polling")].Err)
	})
}

// A hook that blocks delays its own call, and neither renewals nor other calls.
func TestABlockedHookDelaysNoOtherCall(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *fixture) {
		blocked := make(chan struct{})
		defer close(blocked)
		block := func(_ context.Context, e signalbox.Event) {
			if e.Class == "slow" || e.Class == "" {
				<-blocked
			}
		}
		s, link, end := w.session(w.T, quiet, signalbox.WithObserver(signalbox.Observer{
			Released: block, Lost: block, Renewed: block, Polling: block, Subscribed: block,
		}))
		defer end()
		slow, err := reentrant.New(s, "a", signalbox.WithClass("slow")).Lock(w.Context())
		require.NoError(w, err)
		kept, err := reentrant.New(s, "kept", signalbox.WithClass("quick")).Lock(w.Context())
		require.NoError(w, err)
		go func() { _ = slow.Unlock() }()
		synctest.Wait()
		next, err := reentrant.New(s, "a", signalbox.WithClass("quick")).Lock(w.Context())
		require.NoError(w, err, "it was released before the hook was called")
		link.cut()
		time.Sleep(5 * time.Minute)
		require.NoError(w, reentrant.New(s, "kept").ForceUnlock(w.Context()))
		time.Sleep(5 * time.Minute)
		require.ErrorIs(w, kept.Err(), signalbox.ErrLost)
		require.NoError(w, next.Err(), "it is renewed")
		require.NoError(w, next.Unlock())
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
			bubble(t, func(w *fixture) {
				var over atomic.Bool
				s, _, end := w.session(w.T, quiet, signalbox.WithObserver(signalbox.Observer{Lost: func(context.Context, signalbox.Event) {
					time.Sleep(c.hook)
					over.Store(true)
				}}))
				defer end()
				mu := reentrant.New(s, "a")
				_, err := mu.Lock(w.Context())
				require.NoError(w, err)
				if !c.left {
					require.NoError(w, mu.ForceUnlock(w.Context()))
					synctest.Wait()
				}
				ctx, cancel := context.WithTimeout(w.Context(), c.limit)
				defer cancel()
				begun := time.Now()
				require.Equal(w, c.left, s.Close(ctx) != nil)
				require.InDelta(w, c.took, time.Since(begun), float64(50*time.Millisecond))
				require.Equal(w, c.hook < time.Hour, over.Load())
				time.Sleep(time.Hour)
			})
		})
	}
}

// A panic in a hook neither reaches the caller nor leaves a lock behind.
func TestAPanicOfAHookIsLoggedAndLeavesNoLock(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *fixture) {
		logger, lines := logged()
		starts := func(context.Context, signalbox.Event) context.Context { panic("a bug") }
		ends := func(context.Context, signalbox.Event) { panic(errors.New("a bug")) }
		s, _, end := w.session(w.T, signalbox.WithLogger(logger), signalbox.WithObserver(signalbox.Observer{
			Waiting: starts, Acquired: starts, Refused: ends, Released: ends, Renewed: ends, Lost: ends, Forced: ends,
		}))
		defer end()
		mu := reentrant.New(s, "a")
		lease, err := mu.Lock(w.Context())
		require.NoError(w, err)
		_, err = mu.TryLock(w.Context())
		require.ErrorIs(w, err, signalbox.ErrHeld)
		require.NoError(w, lease.Unlock())
		require.Zero(w, w.left("a"))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Equal(w, 1, strings.Count(lines.String(), "level=ERROR"), "a hook that always panics does not fill the log")
		require.Contains(w, lines.String(), "events=5")

		_, err = mu.Lock(w.Context())
		require.NoError(w, err)
		time.Sleep(2 * time.Second) // it is renewed once
		require.NoError(w, mu.ForceUnlock(w.Context()))
		time.Sleep(2 * time.Second) // the holder is notified, and the line is written
		synctest.Wait()
		require.LessOrEqual(w, strings.Count(lines.String(), "level=ERROR"), 4)
		require.Contains(w, lines.String(), "a bug")
	})
}

// Observers that are merged keep all hooks, each with its own contexts, and names only if they are asked for.
func TestMergedObserversKeepAllHooks(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *fixture) {
		var first, second recordedEvents
		named := second.observer(w.T)
		named.Names = true
		s, _, end := w.session(w.T, quiet, signalbox.WithObserver(signalbox.Observers(
			first.observer(w.T), signalbox.Observer{}, unstepped(named),
		)))
		defer end()
		lease, err := reentrant.New(s, "a").Lock(w.Context())
		require.NoError(w, err)
		_, err = reentrant.New(s, "a").TryLock(w.Context())
		require.Error(w, err)
		time.Sleep(time.Minute)
		require.NoError(w, reentrant.New(s, "a").ForceUnlock(w.Context()))
		time.Sleep(time.Second)
		require.Error(w, lease.Unlock())
		hooks, events := first.took()
		all, withNames := second.took()
		require.ElementsMatch(w, strings.Fields(hooks), strings.Fields(all))
		for _, hook := range []string{"waiting", "acquired", "refused", "forced", "renewed", "lost"} {
			require.Contains(w, hooks, hook)
		}
		for i := range withNames {
			require.Empty(w, events[i].Name)
			require.Equal(w, withNames[i].Kind != "", withNames[i].Name == "a", fmt.Sprint(strings.Fields(all)[i]))
		}
	})
	require.Equal(t, signalbox.Observer{}, signalbox.Observers(signalbox.Observer{}), "no hook is called for nothing")
}

// unstepped is an observer whose hooks get a context without the steps of another.
func unstepped(o signalbox.Observer) signalbox.Observer {
	type own struct{}
	in := func(ctx context.Context) context.Context {
		mine, _ := ctx.Value(own{}).(context.Context)
		if mine == nil {
			mine = context.Background()
		}
		return mine
	}
	starter := func(hook func(context.Context, signalbox.Event) context.Context) func(context.Context, signalbox.Event) context.Context {
		return func(ctx context.Context, e signalbox.Event) context.Context {
			return context.WithValue(ctx, own{}, hook(in(ctx), e))
		}
	}
	wrap := func(hook func(context.Context, signalbox.Event)) func(context.Context, signalbox.Event) {
		return func(ctx context.Context, e signalbox.Event) { hook(in(ctx), e) }
	}
	return signalbox.Observer{
		Waiting: starter(o.Waiting), Acquired: starter(o.Acquired), Refused: wrap(o.Refused), Released: wrap(o.Released),
		Lost: wrap(o.Lost), Unconfirmed: wrap(o.Unconfirmed), Forced: wrap(o.Forced), Renewed: wrap(o.Renewed),
		Polling: wrap(o.Polling), Subscribed: wrap(o.Subscribed), Names: o.Names,
	}
}
