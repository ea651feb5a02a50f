// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// scriptedServer is a server that replies to scripts in words that are not its own.
type scriptedServer struct {
	mu    sync.Mutex
	words string // "" for its own
	runs  bool   // the server executes the scripts all the same
	about string // a text in the keys of the scripts; "" for all scripts
	left  int    // scripts until it stops; -1 for never
	said  int    // how often it said other words
}

// say makes a server reply to the next n scripts with words, or with -1 to all of them until words are "".
func (s *scriptedServer) say(words string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.words, s.left = words, n
}

// next returns the words for a script, or "".
func (s *scriptedServer) next(client string, args []string) (words string, runs bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left == 0 || client == runName || !strings.Contains(strings.Join(args, " "), s.about) {
		return "", false
	}
	s.left = max(s.left-1, -1)
	if s.words != "" {
		s.said++
	}
	return s.words, s.runs
}

// saidSince returns how often it said other words since the last call.
func (s *scriptedServer) saidSince() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	said := s.said
	s.said = 0
	return said
}

// redirects reports whether the server is a node of a cluster for now, which HELLO says.
func (s *scriptedServer) redirects() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.HasPrefix(s.words, "MOVED")
}

// scriptReplies makes the server of a fixture one that can say other words. runs says that it executes the scripts all the same.
func (f *fixture) scriptReplies(runs bool) *scriptedServer { //nolint:revive // a fact, not a switch
	s := &scriptedServer{runs: runs}
	f.redis.Server().SetPreHook(func(c *server.Peer, command string, args ...string) bool {
		if command == "HELLO" && len(args) == 0 && s.redirects() {
			c.WriteRaw(helloOfCluster)
			return true
		}
		if !strings.HasPrefix(command, "EVAL") {
			return false
		}
		words, runs := s.next(c.ClientName, args)
		if words == "" {
			return false
		}
		if runs {
			run(f.redis.Server(), slices.Concat([]string{command}, args))
		}
		c.WriteError(words)
		return true
	})
	return s
}

// helloOfCluster is what a primary of a cluster replies to HELLO.
const helloOfCluster = "%2\r\n$4\r\nmode\r\n$7\r\ncluster\r\n$4\r\nrole\r\n$6\r\nmaster\r\n"

// lastingWords are words that a server says for good, and what calls return then: at once if waiting cannot help, or else at the end of
// their context.
var lastingWords = map[string]struct {
	sentinel error
	final    bool // waiting cannot help
	repeats  bool // a release is repeated until the key ends: the cause may be removed
}{
	"ERR user_script:5: bad argument script: 0a1b, on @user_script:5.":       {signalbox.ErrUnsupported, true, false},
	"ERR Error compiling script (new function): user_script:1: near '<eof>'": {signalbox.ErrUnsupported, true, false},
	"MOVED 3999 127.0.0.1:1": {signalbox.ErrUnsupported, true, false},
	"WRONGTYPE Operation against a key holding the wrong kind of value":                {signalbox.ErrWrongKind, true, false},
	"NOPERM No permissions to access a key":                                            {signalbox.ErrDenied, true, true},
	"OOM command not allowed when used memory > 'maxmemory'.":                          {signalbox.ErrRefused, false, true},
	"NOREPLICAS Not enough good replicas to write.":                                    {signalbox.ErrRefused, false, true},
	"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to.": {signalbox.ErrRefused, false, true},
	"READONLY You can't write against a read only replica.":                            {signalbox.ErrRefused, false, true},
	"LOADING Redis is loading the dataset in memory":                                   {signalbox.ErrRefused, false, true},
	"BUSY Redis is busy running a script.":                                             {signalbox.ErrRefused, false, true},
	"ERR Script killed by user with SCRIPT KILL... script: 0a1b, on @user_script:1.":   {signalbox.ErrRefused, false, true},
}

// P10: what can never succeed is sent once, and nothing is sent after a call that certainly did nothing. What may pass is waited for
// within the context, whose error then names it.
func TestHowOftenACallIsSentThatIsAlwaysRefused(t *testing.T) {
	t.Parallel()
	for words, c := range lastingWords {
		t.Run(words, func(t *testing.T) {
			t.Parallel()
			bubbleOfUsers(t, func(f *fixture) {
				s := f.user(quiet).Session
				require.NoError(f, no(reentrant.New(s, "before").TryLock(f.Context())))
				time.Sleep(time.Minute)
				server := f.scriptReplies(false)
				server.about = "{a}"
				server.say(words, -1)
				sent := func(after time.Duration) int {
					time.Sleep(after)
					synctest.Wait()
					return server.saidSince()
				}
				check := func(err error) {
					require.ErrorIs(f, err, c.sentinel)
					require.ErrorContains(f, err, strings.TrimPrefix(words, "ERR "))
				}
				check(no(reentrant.New(s, "a").TryLock(f.Context())))
				require.Equal(f, 1, sent(time.Minute), "TryLock, and no undo")
				ctx, cancel := context.WithCancel(f.Context())
				defer cancel()
				waiting := locktest.LaterWith(ctx, reentrant.New(s, "a").Lock)
				time.Sleep(10 * time.Second)
				synctest.Wait() // no call is under way, whose outcome would be unknown
				if c.final {
					check((<-waiting).Err)
					require.Equal(f, 1, sent(0), "Lock")
				} else {
					cancel()
					err := (<-waiting).Err
					check(err)
					require.ErrorIs(f, err, context.Canceled)
					require.LessOrEqual(f, sent(0), 30, "Lock with pauses up to a second")
				}
				require.Zero(f, sent(time.Minute), "no undo of a call that did nothing")

				holder := f.user(quiet).Session
				server.say("", 0)
				server.about = ""
				unlocked, err := reentrant.New(holder, "unlocked").Lock(f.Context())
				require.NoError(f, err)
				_, err = reentrant.New(holder, "renewed").Lock(f.Context())
				require.NoError(f, err)
				time.Sleep(10 * time.Second) // both have their whole leases
				server.say(words, -1)
				err = unlocked.Unlock()
				if !errors.Is(c.sentinel, signalbox.ErrWrongKind) { // which says that there is nothing to release
					require.ErrorIs(f, err, signalbox.ErrUnconfirmed)
				}
				if c.repeats {
					require.LessOrEqual(f, sent(2*time.Minute), 160, "the release until the key ends, and renewals until the lease does")
				} else {
					require.LessOrEqual(f, sent(2*time.Minute), 60, "one more release, and the renewals")
				}
				require.Zero(f, sent(time.Minute))
			})
		})
	}
}

// P10: a server that refuses a PING, or to end a subscription, ends no program: after a failed save, while a script runs for
// long, or as a replica that has lost its primary. The client panics at such a reply to what it sends behind UNSUBSCRIBE.
func TestARefusedPingEndsNoProgram(t *testing.T) {
	t.Parallel()
	for words, refuses := range map[string]map[string]bool{
		"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.": {"PING": true},
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.":                 {"PING": true},
		"BUSY Redis is busy running a script.":                                                             {"PING": true, "UNSUBSCRIBE": true},
		"ERR unknown command 'PING'":                                                                       {"PING": true},
	} {
		t.Run(words[:8], func(t *testing.T) {
			t.Parallel()
			bubbleOfUsers(t, func(f *fixture) {
				s := f.user().Session
				other := f.user().Session
				_, err := reentrant.New(s, "kept").Lock(f.Context())
				require.NoError(f, err)
				held, err := reentrant.New(other, "a").Lock(f.Context())
				require.NoError(f, err)
				ctx, cancel := context.WithTimeout(f.Context(), 2*time.Second)
				defer cancel()
				_, err = reentrant.New(s, "a").Lock(ctx)
				require.ErrorIs(f, err, context.DeadlineExceeded)
				f.redis.Server().SetPreHook(func(c *server.Peer, command string, _ ...string) bool {
					if refuses[command] {
						c.WriteError(words)
					}
					return refuses[command]
				})
				time.Sleep(time.Minute) // the channel that s waited on has ended, and the connection that had it
				f.redis.Server().SetPreHook(func(*server.Peer, string, ...string) bool { return false })
				time.AfterFunc(5*time.Second, func() { _ = held.Unlock() })
				began := time.Now()
				_, err = reentrant.New(s, "a").Lock(f.Context())
				require.NoError(f, err)
				require.Equal(f, 5*time.Second, time.Since(began), "messages arrive")
			})
		})
	}
}
