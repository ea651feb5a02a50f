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
	bubble(t, func(f *fixture) {
		logger, lines := logged()
		s, dead, end := f.session(f.T, signalbox.WithLogger(logger), signalbox.WithDefaults(signalbox.WithClass("orders")))
		defer end()
		for i := range 100 {
			_, err := reentrant.New(s, fmt.Sprint("order/", i)).Lock(f.Context())
			require.NoError(f, err)
		}
		dead.goSilent()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		lost := matching(lines.String(), "a lease was lost")
		require.Len(f, lost, 1)
		for _, want := range []string{"level=WARN", "kind=reentrant class=orders name=order/", "gone=false", "left=", "events=100"} {
			require.Contains(f, lost[0], want)
		}
	})
}

// What was counted when the session closes is logged by then. A lease that Close ends has its line already.
func TestCloseLogsWhatWasGathered(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		logger, lines := logged()
		s, _, end := f.session(f.T, signalbox.WithLogger(logger))
		defer end()
		lease, err := reentrant.New(s, "a").Lock(f.Context())
		require.NoError(f, err)
		_, err = reentrant.New(s, "b").Lock(f.Context())
		require.NoError(f, err)
		f.redis.Del("sb:{a}:lock")
		require.ErrorIs(f, reentrant.New(s, "a").ForceUnlock(f.Context()), signalbox.ErrNotHeld)
		time.Sleep(1500 * time.Millisecond) // the first renewal finds it gone
		require.ErrorIs(f, lease.Err(), signalbox.ErrLost)
		_ = s.Close(endedContext())
		synctest.Wait()
		require.Len(f, matching(lines.String(), "a lease was lost"), 1)
		require.Len(f, matching(lines.String(), "not unlocked yet"), 1)
	})
}

// Releases without a reply, and calls that the server refuses, have lines of their own. A held lock is not logged.
func TestUnconfirmedAndRefusedCallsAreLogged(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		logger, lines := logged()
		s, dead, end := f.session(f.T, signalbox.WithLogger(logger))
		defer end()
		mu := reentrant.New(s, "a")
		lease, err := mu.Lock(f.Context())
		require.NoError(f, err)
		_, err = mu.TryLock(f.Context())
		require.ErrorIs(f, err, signalbox.ErrHeld)
		time.Sleep(2 * time.Second)
		require.Empty(f, lines.String())
		f.redis.SetError("LOADING Redis is loading the dataset in memory")
		for range 3 {
			_, err = reentrant.New(s, "b").TryLock(f.Context())
			require.ErrorIs(f, err, signalbox.ErrRefused)
		}
		f.redis.SetError("")
		dead.goSilent()
		require.ErrorIs(f, lease.Unlock(), signalbox.ErrUnconfirmed)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		refused := matching(lines.String(), "refused a call")
		require.Len(f, refused, 1)
		require.Contains(f, refused[0], `op="try lock"`)
		require.Contains(f, refused[0], "kind=reentrant name=b ", "no class is logged as none")
		require.Contains(f, refused[0], "events=3")
		require.Len(f, matching(lines.String(), "did not confirm"), 1)
	})
}

// The change to polling and back is logged, below the level of warnings.
func TestPollingIsLoggedAsInformation(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		logger, lines := logged()
		s, wire, end := f.session(f.T, signalbox.WithLogger(logger))
		defer end()
		_, err := reentrant.New(s, "a").Lock(f.Context())
		require.NoError(f, err)
		time.Sleep(time.Second)
		wire.cut()
		time.Sleep(20 * time.Second)
		synctest.Wait()
		require.Len(f, matching(lines.String(), "level=INFO msg=\"signalbox: no unlock messages for now; waiters poll\""), 1)
		require.Len(f, matching(lines.String(), "level=INFO msg=\"signalbox: unlock messages arrive again\""), 1)
		require.Len(f, matching(lines.String(), "level="), 2)
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
	bubble(t, func(f *fixture) {
		logger, lines := logged()
		s, _, end := f.session(f.T, signalbox.WithLogger(logger), signalbox.WithObserver(signalbox.Observer{
			Released: func(context.Context, signalbox.Event) { panic("a bug") },
		}))
		defer end()
		for range 100 {
			lease, err := reentrant.New(s, "a").Lock(f.Context())
			require.NoError(f, err)
			require.NoError(f, lease.Unlock())
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		panics := matching(lines.String(), "a hook of the observer panicked")
		require.Len(f, panics, 1)
		require.Contains(f, panics[0], "level=ERROR")
		require.Contains(f, panics[0], "events=100")
	})
}
