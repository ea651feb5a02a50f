// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/election"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/once"
	"github.com/signalbox-go/signalbox/reentrant"
)

// lapses are denials of what a session was allowed before.
var lapses = []string{
	"WRONGPASS invalid username-password pair or user is disabled.",
	"NOAUTH Authentication required.",
	"NOPERM User locks has no permissions to run the 'evalsha' command",
	"NOPERM No permissions to access a key",
	"ERR unknown command 'EVALSHA', with args beginning with: 'x' ",
}

// P10: a fleet survives credentials that are wrong for some seconds: waiters, candidates, leaders and Lockers continue, also
// those that come meanwhile. TryLock returns ErrDenied at once.
func TestAFleetWaitsForItsCredentials(t *testing.T) {
	t.Parallel()
	for _, words := range lapses {
		bubble(t, func(w *fixture) {
			var ends []func()
			open := func() *signalbox.Session {
				s, _, end := w.session(w.T, quiet)
				ends = append(ends, end)
				return s
			}
			defer func() {
				for _, end := range ends {
					end()
				}
			}()
			ctx, cancel := context.WithCancel(w.Context())
			holder := open()
			held, err := reentrant.New(holder, "busy").Lock(ctx)
			require.NoError(w, err)
			early, late := make(chan error, 9), make(chan error, 9)
			for range 3 { // a leader and two candidates
				go func() {
					early <- election.New(open(), "e").Run(ctx, func(ctx context.Context, _ election.Term) error {
						<-ctx.Done()
						return nil
					})
				}()
				time.Sleep(100 * time.Millisecond)
			}
			s := open()
			waited := make(chan error, 9)
			go func() { waited <- no(reentrant.New(s, "busy").Lock(ctx)) }()
			go func() { waited <- no(fair.New(open(), "busy").Lock(ctx)) }()
			time.Sleep(3 * time.Second)
			synctest.Wait()
			server := w.scriptReplies(false)
			server.say(words, -1)
			if words != lapses[3] { // a key that was never used may be one that the user has no right to
				go func() { late <- no(reentrant.New(s, "new").Lock(ctx)) }()
				go func() { late <- panics(reentrant.New(s, "locker").Locker(ctx).Lock) }()
			}
			require.ErrorIs(w, no(reentrant.New(s, "busy").TryLock(ctx)), signalbox.ErrHeld, "a goroutine of the session waits")
			require.ErrorIs(w, no(reentrant.New(holder, "other").TryLock(ctx)), signalbox.ErrDenied)
			time.Sleep(2 * time.Second)
			synctest.Wait()
			require.Empty(w, early, words)
			require.Empty(w, late, words)
			require.Empty(w, waited, words)
			server.say("", 0)
			require.NoError(w, held.Unlock())
			require.NoError(w, <-waited, words)
			if words != lapses[3] {
				require.NoError(w, <-late, words)
				require.NoError(w, <-late, words)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			require.Empty(w, early, words)
			cancel()
		})
	}
}

// A right that a session never had is reported at once: first credentials, and a name beyond the keys that are granted.
func TestARightThatWasNeverThereIsReportedAtOnce(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *fixture) {
		s, _, end := w.session(w.T, quiet)
		defer end()
		server := w.scriptReplies(false)
		for _, words := range lapses {
			server.say(words, -1)
			began := time.Now()
			require.ErrorIs(w, no(reentrant.New(s, "a").Lock(w.Context())), signalbox.ErrDenied)
			require.Less(w, time.Since(began), time.Second, words)
			time.Sleep(time.Second)
		}
		server.say("", 0)
		time.Sleep(time.Second)
		lease, err := reentrant.New(s, "a").Lock(w.Context())
		require.NoError(w, err)
		require.NoError(w, lease.Unlock())
		for _, words := range []string{
			lapses[3],
			"ERR ACL failure in script: User locks has no permissions to run the 'zadd' command",
			"ERR The user executing the script can't run this command or subcommand",
		} {
			server.say(words, -1)
			began := time.Now()
			require.ErrorIs(w, no(reentrant.New(s, "beyond").Lock(w.Context())), signalbox.ErrDenied)
			require.Zero(w, time.Since(began), words)
		}
	})
}

// P5: the store of an outcome is repeated after a denial, of a command in its script, too.
func TestAFunctionRunsOnceWhateverIsDenied(t *testing.T) {
	t.Parallel()
	for _, words := range append([]string{"ERR ACL failure in script: User locks has no permissions to run the 'set' command"}, lapses...) {
		bubble(t, func(w *fixture) {
			s, _, end := w.session(w.T, quiet)
			defer end()
			server, runs := w.scriptReplies(false), 0
			for range 2 {
				value, _, err := once.New(s, "charge").Do(w.Context(), func(context.Context, signalbox.Lease) ([]byte, error) {
					runs++
					server.say(words, -1)
					time.AfterFunc(200*time.Millisecond, func() { server.say("", 0) })
					return []byte("done"), nil
				})
				require.NoError(w, err, words)
				require.Equal(w, "done", string(value))
				time.Sleep(time.Second)
			}
			require.Equal(w, 1, runs, words)
		})
	}
}
