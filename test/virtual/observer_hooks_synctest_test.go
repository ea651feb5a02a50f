// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/reentrant"
)

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
