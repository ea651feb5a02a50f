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
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
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
		bubble(t, func(f *fixture) {
			var ends []func()
			open := func() *signalbox.Session {
				s, _, end := f.session(f.T, quiet)
				ends = append(ends, end)
				return s
			}
			defer func() {
				for _, end := range ends {
					end()
				}
			}()
			ctx, cancel := context.WithCancel(f.Context())
			holder := open()
			held, err := reentrant.New(holder, "busy").Lock(ctx)
			require.NoError(f, err)
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
			server := f.scriptReplies(false)
			server.say(words, -1)
			if words != lapses[3] { // a key that was never used may be one that the user has no right to
				go func() { late <- no(reentrant.New(s, "new").Lock(ctx)) }()
				go func() { late <- locktest.PanicOf(reentrant.New(s, "locker").Locker(ctx).Lock) }()
			}
			require.ErrorIs(f, no(reentrant.New(s, "busy").TryLock(ctx)), signalbox.ErrHeld, "a goroutine of the session waits")
			require.ErrorIs(f, no(reentrant.New(holder, "other").TryLock(ctx)), signalbox.ErrDenied)
			time.Sleep(2 * time.Second)
			synctest.Wait()
			require.Empty(f, early, words)
			require.Empty(f, late, words)
			require.Empty(f, waited, words)
			server.say("", 0)
			require.NoError(f, held.Unlock())
			require.NoError(f, <-waited, words)
			if words != lapses[3] {
				require.NoError(f, <-late, words)
				require.NoError(f, <-late, words)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			require.Empty(f, early, words)
			cancel()
		})
	}
}

// A right that a session never had is reported at once: first credentials, and a name beyond the keys that are granted.
func TestARightThatWasNeverThereIsReportedAtOnce(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		s, _, end := f.session(f.T, quiet)
		defer end()
		server := f.scriptReplies(false)
		for _, words := range lapses {
			server.say(words, -1)
			began := time.Now()
			require.ErrorIs(f, no(reentrant.New(s, "a").Lock(f.Context())), signalbox.ErrDenied)
			require.Less(f, time.Since(began), time.Second, words)
			time.Sleep(time.Second)
		}
		server.say("", 0)
		time.Sleep(time.Second)
		lease, err := reentrant.New(s, "a").Lock(f.Context())
		require.NoError(f, err)
		require.NoError(f, lease.Unlock())
		for _, words := range []string{
			lapses[3],
			"ERR ACL failure in script: User locks has no permissions to run the 'zadd' command",
			"ERR The user executing the script can't run this command or subcommand",
		} {
			server.say(words, -1)
			began := time.Now()
			require.ErrorIs(f, no(reentrant.New(s, "beyond").Lock(f.Context())), signalbox.ErrDenied)
			require.Zero(f, time.Since(began), words)
		}
	})
}

// P5: the store of an outcome is repeated after a denial, of a command in its script, too.
func TestAFunctionRunsOnceWhateverIsDenied(t *testing.T) {
	t.Parallel()
	for _, words := range append([]string{"ERR ACL failure in script: User locks has no permissions to run the 'set' command"}, lapses...) {
		bubble(t, func(f *fixture) {
			s, _, end := f.session(f.T, quiet)
			defer end()
			server, runs := f.scriptReplies(false), 0
			for range 2 {
				value, _, err := once.New(s, "charge").Do(f.Context(), func(context.Context, signalbox.Lease) ([]byte, error) {
					runs++
					server.say(words, -1)
					time.AfterFunc(200*time.Millisecond, func() { server.say("", 0) })
					return []byte("done"), nil
				})
				require.NoError(f, err, words)
				require.Equal(f, "done", string(value))
				time.Sleep(time.Second)
			}
			require.Equal(f, 1, runs, words)
		})
	}
}
