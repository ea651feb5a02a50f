// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/reentrant"
)

// A hundred leases that are lost within a second make one line, with their number and the first of them.
func TestAHundredLossesMakeOneLine(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *fixture) {
		logger, lines := logged()
		s, dead, end := w.session(w.T, signalbox.WithLogger(logger), signalbox.WithDefaults(signalbox.WithClass("orders")))
		defer end()
		for i := range 100 {
			_, err := reentrant.New(s, fmt.Sprint("order/", i)).Lock(w.Context())
			require.NoError(w, err)
		}
		dead.goSilent()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		lost := matching(lines.String(), "a lease was lost")
		require.Len(w, lost, 1)
		for _, want := range []string{"level=WARN", "kind=reentrant class=orders name=order/", "gone=false", "left=", "events=100"} {
			require.Contains(w, lost[0], want)
		}
	})
}

// What was counted when the session closes is logged by then. A lease that Close ends has its line already.
func TestCloseLogsWhatWasGathered(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *fixture) {
		logger, lines := logged()
		s, _, end := w.session(w.T, signalbox.WithLogger(logger))
		defer end()
		lease, err := reentrant.New(s, "a").Lock(w.Context())
		require.NoError(w, err)
		_, err = reentrant.New(s, "b").Lock(w.Context())
		require.NoError(w, err)
		w.redis.Del("sb:{a}:lock")
		require.ErrorIs(w, reentrant.New(s, "a").ForceUnlock(w.Context()), signalbox.ErrNotHeld)
		time.Sleep(1500 * time.Millisecond) // the first renewal finds it gone
		require.ErrorIs(w, lease.Err(), signalbox.ErrLost)
		_ = s.Close(endedContext())
		synctest.Wait()
		require.Len(w, matching(lines.String(), "a lease was lost"), 1)
		require.Len(w, matching(lines.String(), "not unlocked yet"), 1)
	})
}

// Releases without a reply, and calls that the server refuses, have lines of their own. A held lock is not logged.
func TestUnconfirmedAndRefusedCallsAreLogged(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *fixture) {
		logger, lines := logged()
		s, dead, end := w.session(w.T, signalbox.WithLogger(logger))
		defer end()
		mu := reentrant.New(s, "a")
		lease, err := mu.Lock(w.Context())
		require.NoError(w, err)
		_, err = mu.TryLock(w.Context())
		require.ErrorIs(w, err, signalbox.ErrHeld)
		time.Sleep(2 * time.Second)
		require.Empty(w, lines.String())
		w.redis.SetError("LOADING Redis is loading the dataset in memory")
		for range 3 {
			_, err = reentrant.New(s, "b").TryLock(w.Context())
			require.ErrorIs(w, err, signalbox.ErrRefused)
		}
		w.redis.SetError("")
		dead.goSilent()
		require.ErrorIs(w, lease.Unlock(), signalbox.ErrUnconfirmed)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		refused := matching(lines.String(), "refused a call")
		require.Len(w, refused, 1)
		require.Contains(w, refused[0], `op="try lock"`)
		require.Contains(w, refused[0], "kind=reentrant name=b ", "no class is logged as none")
		require.Contains(w, refused[0], "events=3")
		require.Len(w, matching(lines.String(), "did not confirm"), 1)
	})
}

// The change to polling and back is logged, below the level of warnings.
func TestPollingIsLoggedAsInformation(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *fixture) {
		logger, lines := logged()
		s, wire, end := w.session(w.T, signalbox.WithLogger(logger))
		defer end()
		_, err := reentrant.New(s, "a").Lock(w.Context())
		require.NoError(w, err)
		time.Sleep(time.Second)
		wire.cut()
		time.Sleep(20 * time.Second)
		synctest.Wait()
		require.Len(w, matching(lines.String(), "level=INFO msg=\"signalbox: no unlock messages for now; waiters poll\""), 1)
		require.Len(w, matching(lines.String(), "level=INFO msg=\"signalbox: unlock messages arrive again\""), 1)
		require.Len(w, matching(lines.String(), "level="), 2)
	})
}

// matching returns the lines of a log that have a text.
func matching(log, text string) (found []string) {
	for line := range strings.Lines(log) {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

// Hooks that panic at every call cost one line a second.
func TestHooksThatPanicAreOneLineASecond(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *fixture) {
		logger, lines := logged()
		s, _, end := w.session(w.T, signalbox.WithLogger(logger), signalbox.WithObserver(signalbox.Observer{
			Released: func(context.Context, signalbox.Event) { panic("a bug") },
		}))
		defer end()
		for range 100 {
			lease, err := reentrant.New(s, "a").Lock(w.Context())
			require.NoError(w, err)
			require.NoError(w, lease.Unlock())
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		panics := matching(lines.String(), "a hook of the observer panicked")
		require.Len(w, panics, 1)
		require.Contains(w, panics[0], "level=ERROR")
		require.Contains(w, panics[0], "events=100")
	})
}
