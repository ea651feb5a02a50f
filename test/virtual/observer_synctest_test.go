// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"slices"
	"strings"
	"sync"
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
