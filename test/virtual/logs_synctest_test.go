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
		refused := matching(lines.String(), "the server refuses calls")
		require.Len(f, refused, 1)
		require.Contains(f, refused[0], `op="try lock"`)
		require.Contains(f, refused[0], "kind=reentrant name=b ", "no class is logged as none")
		require.Contains(f, refused[0], "wait until the server has read its data")
		require.Len(f, matching(lines.String(), "did not confirm"), 1)
	})
}

// That no messages arrive is logged when it has lasted for 5 s, once, also if they come back for a moment again and again; and once more
// when they have arrived for as long. A connection that breaks once is not logged.
func TestMissingMessagesAreLoggedOnceAndTheirEndToo(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		logger, lines := logged()
		s, wire, end := f.session(f.T, signalbox.WithLogger(logger))
		defer end()
		_, err := reentrant.New(s, "a").Lock(f.Context())
		require.NoError(f, err)
		begun := func() int {
			return len(matching(lines.String(), "level=WARN msg=\"signalbox: no unlock messages arrive; waiters poll"))
		}
		ended := func() int {
			return len(matching(lines.String(), "level=INFO msg=\"signalbox: unlock messages arrive again\""))
		}
		time.Sleep(time.Second)
		wire.cut()
		time.Sleep(20 * time.Second)
		synctest.Wait()
		require.Empty(f, lines.String())
		for range 15 {
			wire.cut()
			time.Sleep(2 * time.Second)
		}
		synctest.Wait()
		require.Equal(f, 1, begun(), lines)
		require.Zero(f, ended())
		time.Sleep(20 * time.Second)
		synctest.Wait()
		require.Equal(f, 1, begun())
		require.Equal(f, 1, ended())
		require.Len(f, matching(lines.String(), "level="), 2)
	})
}

// Events of one sort that continue for an hour, such as releases without a reply, make a line a minute, with their number.
func TestEventsThatContinueAreLoggedMoreAndMoreRarely(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		logger, lines := logged()
		s, _, end := f.session(f.T, signalbox.WithLogger(logger))
		defer end()
		server := f.scriptReplies(false)
		for range 600 {
			server.say("", 0)
			lease, err := reentrant.New(s, strings.Repeat("long", 100), signalbox.WithFixedLease(5*time.Second)).Lock(f.Context())
			require.NoError(f, err)
			server.say("OOM command not allowed when used memory > 'maxmemory'.", -1)
			require.ErrorIs(f, lease.Unlock(), signalbox.ErrUnconfirmed)
			time.Sleep(time.Second)
			server.say("", 0)
			time.Sleep(5 * time.Second)
		}
		synctest.Wait()
		require.LessOrEqual(f, len(matching(lines.String(), "did not confirm a release")), 70)
		for line := range strings.Lines(lines.String()) {
			require.NotContains(f, line, strings.Repeat("long", 20))
		}
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
