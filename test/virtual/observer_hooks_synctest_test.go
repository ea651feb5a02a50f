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
	for outcome, lose := range map[string]func(f *fixture, s *signalbox.Session, link *wire){
		"expired": func(_ *fixture, _ *signalbox.Session, link *wire) { link.goSilent(); time.Sleep(4 * time.Second) },
		"gone": func(f *fixture, s *signalbox.Session, _ *wire) {
			require.NoError(f, reentrant.New(s, "a").ForceUnlock(f.Context()))
			time.Sleep(time.Second)
		},
		"max_hold": func(*fixture, *signalbox.Session, *wire) { time.Sleep(time.Minute) },
		"closed":   func(f *fixture, s *signalbox.Session, _ *wire) { _ = s.Close(endedContext()) },
	} {
		t.Run(outcome, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(f *fixture) {
				r := new(recordedEvents)
				s, link, end := f.session(f.T, signalbox.WithObserver(r.observer(f.T)), quiet)
				defer end()
				var options []signalbox.LockOption
				if outcome == "max_hold" {
					options = []signalbox.LockOption{signalbox.WithMaxHold(30 * time.Second)}
				}
				lease, err := reentrant.New(s, "a", options...).Lock(f.Context())
				require.NoError(f, err)
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
	bubble(t, func(f *fixture) {
		r := new(recordedEvents)
		s, link, end := f.session(f.T, signalbox.WithObserver(r.observer(f.T)), quiet)
		defer end()
		lease, err := reentrant.New(s, "a").Lock(f.Context())
		require.NoError(f, err)
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
	bubble(t, func(f *fixture) {
		r := new(recordedEvents)
		s, link, end := f.session(f.T, signalbox.WithObserver(r.observer(f.T)), quiet)
		defer end()
		_, err := reentrant.New(s, "a").Lock(f.Context())
		require.NoError(f, err)
		_, err = reentrant.New(s, "b").Lock(f.Context())
		require.NoError(f, err)
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

// A subscription that is lost is reported once, and so is that it is back.
func TestPollingIsReportedUntilMessagesArriveAgain(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		r := new(recordedEvents)
		s, link, end := f.session(f.T, signalbox.WithObserver(r.observer(f.T)), quiet)
		defer end()
		_, err := reentrant.New(s, "a").Lock(f.Context())
		require.NoError(f, err)
		time.Sleep(time.Second) // it listens for ForceUnlock by now
		r.took()
		link.cut()
		time.Sleep(20 * time.Second)
		hooks, events := r.took()
		reports := slices.DeleteFunc(strings.Fields(hooks), func(hook string) bool { return hook == "renewed" })
		require.Equal(f, []string{"polling", "subscribed"}, reports)
		require.Error(f, events[slices.Index(strings.Fields(hooks), "polling")].Err)
	})
}

// A hook that blocks delays its own call, and neither renewals nor other calls.
func TestABlockedHookDelaysNoOtherCall(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		blocked := make(chan struct{})
		defer close(blocked)
		block := func(_ context.Context, e signalbox.Event) {
			if e.Class == "slow" || e.Class == "" {
				<-blocked
			}
		}
		s, link, end := f.session(f.T, quiet, signalbox.WithObserver(signalbox.Observer{
			Released: block, Lost: block, Renewed: block, Polling: block, Subscribed: block,
		}))
		defer end()
		slow, err := reentrant.New(s, "a", signalbox.WithClass("slow")).Lock(f.Context())
		require.NoError(f, err)
		kept, err := reentrant.New(s, "kept", signalbox.WithClass("quick")).Lock(f.Context())
		require.NoError(f, err)
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
			bubble(t, func(f *fixture) {
				var over atomic.Bool
				s, _, end := f.session(f.T, quiet, signalbox.WithObserver(signalbox.Observer{Lost: func(context.Context, signalbox.Event) {
					time.Sleep(c.hook)
					over.Store(true)
				}}))
				defer end()
				mu := reentrant.New(s, "a")
				_, err := mu.Lock(f.Context())
				require.NoError(f, err)
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

// A panic in a hook neither reaches the caller nor leaves a lock behind.
func TestAPanicOfAHookIsLoggedAndLeavesNoLock(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		logger, lines := logged()
		starts := func(context.Context, signalbox.Event) context.Context { panic("a bug") }
		ends := func(context.Context, signalbox.Event) { panic(errors.New("a bug")) }
		s, _, end := f.session(f.T, signalbox.WithLogger(logger), signalbox.WithObserver(signalbox.Observer{
			Waiting: starts, Acquired: starts, Refused: ends, Released: ends, Renewed: ends, Lost: ends, Forced: ends,
		}))
		defer end()
		mu := reentrant.New(s, "a")
		lease, err := mu.Lock(f.Context())
		require.NoError(f, err)
		_, err = mu.TryLock(f.Context())
		require.ErrorIs(f, err, signalbox.ErrHeld)
		require.NoError(f, lease.Unlock())
		require.Zero(f, f.left("a"))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Equal(f, 1, strings.Count(lines.String(), "level=ERROR"), "a hook that always panics does not fill the log")
		require.Contains(f, lines.String(), "events=5")

		_, err = mu.Lock(f.Context())
		require.NoError(f, err)
		time.Sleep(2 * time.Second) // it is renewed once
		require.NoError(f, mu.ForceUnlock(f.Context()))
		time.Sleep(2 * time.Second) // the holder is notified, and the line is written
		synctest.Wait()
		require.LessOrEqual(f, strings.Count(lines.String(), "level=ERROR"), 4)
		require.Contains(f, lines.String(), "a bug")
	})
}

// Observers that are merged keep all hooks, each with its own contexts, and names only if they are asked for.
func TestMergedObserversKeepAllHooks(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		var first, second recordedEvents
		named := second.observer(f.T)
		named.Names = true
		s, _, end := f.session(f.T, quiet, signalbox.WithObserver(signalbox.Observers(
			first.observer(f.T), signalbox.Observer{}, named,
		)))
		defer end()
		lease, err := reentrant.New(s, "a").Lock(f.Context())
		require.NoError(f, err)
		_, err = reentrant.New(s, "a").TryLock(f.Context())
		require.Error(f, err)
		time.Sleep(time.Minute)
		require.NoError(f, reentrant.New(s, "a").ForceUnlock(f.Context()))
		time.Sleep(time.Second)
		require.Error(f, lease.Unlock())
		hooks, events := first.took()
		all, withNames := second.took()
		require.ElementsMatch(f, strings.Fields(hooks), strings.Fields(all))
		for _, hook := range []string{"waiting", "acquired", "refused", "forced", "renewed", "lost"} {
			require.Contains(f, hooks, hook)
		}
		for i := range withNames {
			require.Empty(f, events[i].Name)
			require.Equal(f, withNames[i].Kind != "", withNames[i].Name == "a", fmt.Sprint(strings.Fields(all)[i]))
		}
	})
	require.Equal(t, signalbox.Observer{}, signalbox.Observers(signalbox.Observer{}), "no hook is called for nothing")
}
