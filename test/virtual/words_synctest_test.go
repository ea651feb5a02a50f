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

	"github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/election"
	"github.com/signalbox-go/signalbox/once"
	"github.com/signalbox-go/signalbox/reentrant"
)

// scriptedServer is a server that replies to scripts in words that are not its own.
type scriptedServer struct {
	mu    sync.Mutex
	words string // "" for its own
	runs  bool   // the server executes the scripts all the same
	about string // a text in the keys of the scripts; "" for all scripts
	left  int    // scripts until it stops; -1 for never
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
	return s.words, s.runs
}

// scriptReplies makes the server of a fixture one that can say other words. runs says that it executes the scripts all the same.
func (f *fixture) scriptReplies(runs bool) *scriptedServer { //nolint:revive // a fact, not a switch
	s := &scriptedServer{runs: runs}
	f.redis.Server().SetPreHook(func(c *server.Peer, command string, args ...string) bool {
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

// strange are words that no server of ours says.
var strange = []string{
	"upstream failure",
	"ERR max daily request limit exceeded. Limit: 10000, Usage: 10000.",
	"ERR Error running script (call to f_0): @user_script:2: attempt to compare number with nil",
}

// P4, P5: a TryLock or a Campaign whose reply was lost in words that no server says leaves nothing behind.
func TestStrangeWordsLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	for _, words := range strange {
		bubble(t, func(f *fixture) {
			s, _, end := f.session(f.T, quiet)
			defer end()
			lease, err := reentrant.New(s, "warm").TryLock(f.Context())
			require.NoError(f, err)
			require.NoError(f, lease.Unlock())
			proxy := f.scriptReplies(true)
			for name, try := range map[string]func(lock string) error{
				"TryLock": func(lock string) error { return no(reentrant.New(s, lock).TryLock(f.Context())) },
				"Kept": func(lock string) error {
					return no(reentrant.New(s, lock, signalbox.WithFixedLease(time.Hour)).TryLock(f.Context()))
				},
			} {
				proxy.say(words, 1)
				require.ErrorContains(f, try(name), strings.TrimPrefix(words, "ERR "))
				time.Sleep(50 * time.Millisecond)
				synctest.Wait()
				require.Zero(f, f.left(name), "%s: %s", name, words)
			}
			proxy.say(words, 1)
			term, err := election.New(s, "e").Campaign(f.Context())
			require.NoError(f, err, "it is sent again")
			require.NoError(f, term.Resign())
			time.Sleep(10 * time.Second)
			requireIdle(f.T, s)
		})
	}
}

// P10: waiters, candidates and Lockers continue while a proxy says for three seconds what no server says.
func TestWaitersContinueThroughStrangeWords(t *testing.T) {
	t.Parallel()
	for _, words := range strange {
		bubble(t, func(f *fixture) {
			a, _, endA := f.session(f.T, quiet)
			defer endA()
			b, _, endB := f.session(f.T, quiet)
			defer endB()
			held, err := reentrant.New(a, "busy").Lock(f.Context())
			require.NoError(f, err)
			ctx, cancel := context.WithCancel(f.Context())
			ended := make(chan error, 3)
			go func() { ended <- no(reentrant.New(b, "busy").Lock(ctx)) }()
			leads := make(chan struct{}, 9)
			go func() {
				ended <- election.New(b, "e").Run(ctx, func(ctx context.Context, _ election.Term) error {
					leads <- struct{}{}
					<-ctx.Done()
					return nil
				})
			}()
			<-leads
			time.Sleep(2 * time.Second) // the leases are as long as they will be
			proxy := f.scriptReplies(false)
			proxy.say(words, -1)
			go func() {
				k := reentrant.New(b, "locker").Locker(ctx)
				ended <- panics(k.Lock)
			}()
			time.Sleep(3 * time.Second)
			synctest.Wait()
			require.Empty(f, ended, words)
			proxy.say("", 0)
			require.NoError(f, held.Unlock())
			require.NoError(f, <-ended)
			require.NoError(f, <-ended)
			time.Sleep(time.Minute)
			synctest.Wait()
			require.Empty(f, ended)
			cancel()
			require.ErrorIs(f, <-ended, context.Canceled)
		})
	}
}

// P5: the store of an outcome is repeated after words that no server says, whether it was executed or not.
func TestAFunctionRunsOnceWhateverAProxySays(t *testing.T) {
	t.Parallel()
	for _, executed := range []bool{false, true} {
		bubble(t, func(f *fixture) {
			s, _, end := f.session(f.T, quiet)
			defer end()
			proxy, runs := f.scriptReplies(executed), 0
			do := func() (string, error) {
				value, _, err := once.New(s, "charge").Do(f.Context(), func(context.Context, signalbox.Lease) ([]byte, error) {
					runs++
					proxy.say(strange[0], -1)
					time.AfterFunc(200*time.Millisecond, func() { proxy.say("", 0) })
					return []byte("done"), nil
				})
				return string(value), err
			}
			for range 2 {
				value, err := do()
				require.NoError(f, err)
				require.Equal(f, "done", value)
				time.Sleep(time.Second)
			}
			require.Equal(f, 1, runs)
		})
	}
}
