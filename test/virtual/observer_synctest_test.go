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
func (f *fixture) observed(options ...signalbox.SessionOption) (*signalbox.Session, *recordedEvents, func()) {
	r := new(recordedEvents)
	s, _, end := f.session(f.T, append(options, signalbox.WithObserver(r.observer(f.T)))...)
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
			bubble(t, func(f *fixture) {
				s, r, end := f.observed()
				defer end()
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
	bubble(t, func(f *fixture) {
		s, r, end := f.observed()
		defer end()
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
	bubble(t, func(f *fixture) {
		s, r, end := f.observed()
		defer end()
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
	bubble(t, func(f *fixture) {
		r := new(recordedEvents)
		observer := r.observer(f.T)
		observer.Names = true
		s, _, end := f.session(f.T, signalbox.WithObserver(observer))
		defer end()
		orders, stock := signalbox.WithClass("orders"), signalbox.WithClass("stock")
		for class, mu := range map[string]*multilock.Lock{
			"orders": multilock.New(reentrant.New(s, "a", orders), reentrant.New(s, "b", orders)),
			"":       multilock.New(reentrant.New(s, "a", orders), reentrant.New(s, "b", stock)),
		} {
			lease, err := mu.Lock(f.Context())
			require.NoError(f, err)
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
	bubble(t, func(f *fixture) {
		s, r, end := f.observed()
		defer end()
		elsewhere, _, endElsewhere := f.session(f.T)
		defer endElsewhere()
		other, err := reentrant.New(elsewhere, "a").Lock(f.Context())
		require.NoError(f, err)
		mu := reentrant.New(s, "a")
		take := func() { // holds it within one turn, which is short behind a long wait
			lease, err := mu.Lock(f.Context())
			require.NoError(f, err)
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
	bubble(t, func(f *fixture) {
		s, r, end := f.observed()
		defer end()
		elsewhere, _, endElsewhere := f.session(f.T)
		defer endElsewhere()
		_, err := reentrant.New(elsewhere, "a").Lock(f.Context())
		require.NoError(f, err)
		_, err = fair.New(elsewhere, "b").Lock(f.Context())
		require.NoError(f, err)
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
			_, err := call()
			require.Error(f, err)
			hooks, events := r.took()
			require.Equal(f, "waiting refused", hooks, outcome)
			require.Equal(f, outcome, events[1].Outcome)
			require.Equal(f, events[1].Waited >= 900*time.Millisecond, outcome == "timeout" || outcome == "canceled", outcome)
		}
	})
}
