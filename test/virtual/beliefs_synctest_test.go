// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/election"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/scripts"
	"github.com/signalbox-go/signalbox/shards"
)

// outside is what sessions learn when they connect first, and what changes later: an address, and the password of a user.
type outside struct {
	*movingAddress

	mu    sync.Mutex
	token string
	fails func() (rueidis.AuthCredentials, error) // the function in place of the usual one for credentials, or nil
}

// refuseAUTH makes a server refuse AUTH on subscribed connections, as all do in RESP2.
func refuseAUTH(m *miniredis.Miniredis) {
	var subscribed sync.Map
	m.Server().SetPreHook(func(c *server.Peer, command string, _ ...string) bool {
		if command == "SUBSCRIBE" {
			subscribed.Store(c, true)
		}
		_, refuses := subscribed.Load(c)
		if refuses = refuses && command == "AUTH"; refuses {
			c.WriteError("ERR Can't execute 'auth': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context")
		}
		return refuses
	})
}

// rotate makes another token the only one that the servers accept.
func (o *outside) rotate(token string) {
	synctest.Wait() // the fake server reads the users without a lock
	o.mu.Lock()
	defer o.mu.Unlock()
	o.token = token
	o.redis.RequireUserAuth("teller", token)
	o.next.RequireUserAuth("teller", token)
}

// fail lets the function for credentials do something else, or be itself again.
func (o *outside) fail(does func() (rueidis.AuthCredentials, error)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.fails = does
}

func (o *outside) credentials(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.fails != nil {
		return o.fails()
	}
	// Not at the instant of a poll: a server that is asked for subscriptions between the end of one and its notice would be suspected.
	return rueidis.AuthCredentials{Username: "teller", Password: o.token, RefreshAfter: time.Now().Add(7017 * time.Millisecond)}, nil
}

// What changes behind a session that holds, waits, leads and owns shards is used from then on: when the address leads to another
// server afterwards, and the former one serves as before, the session follows. Nothing is lost, no lock is held twice, and the log says
// no more than the row names. What cannot be had is named in the log, once, and once when it is over.
func TestWhatChangesIsUsed(t *testing.T) {
	t.Parallel()
	const replaced, refreshed = "no second connection to the server can be made", "the function for credentials fails"
	throttled := func() (rueidis.AuthCredentials, error) { return rueidis.AuthCredentials{}, errors.New("throttled") }
	for name, c := range map[string]struct {
		mod     func(*rueidis.ClientOption)
		changes func(o *outside)
		says    string // a part of the one line in the log meanwhile, which another line ends; "" for no line
	}{
		"nothing": {changes: func(*outside) {}},
		"the token": {changes: func(o *outside) {
			for _, token := range []string{"b", "a longer one", "c"} {
				o.rotate(token)
				time.Sleep(11 * time.Second)
			}
		}},
		"the token, and the server ends all connections": {changes: func(o *outside) {
			o.rotate("b")
			for _, link := range o.links {
				link.cut()
			}
		}},
		"the function fails for a while": {says: refreshed, changes: func(o *outside) {
			o.fail(throttled)
			o.rotate("b")
			time.Sleep(time.Minute)
			o.fail(nil)
		}},
		"the function panics for a while": {says: refreshed, changes: func(o *outside) {
			o.fail(func() (rueidis.AuthCredentials, error) { panic("no vault") })
			o.rotate("b")
			time.Sleep(time.Minute)
			o.fail(nil)
		}},
		"a fixed password, and back": {
			mod:  func(o *rueidis.ClientOption) { o.AuthCredentialsFn, o.Username, o.Password = nil, "teller", "a" },
			says: replaced, changes: func(o *outside) {
				o.rotate("b")
				time.Sleep(time.Minute)
				o.rotate("a")
			},
		},
	} {
		for _, resp2 := range []bool{true, false} {
			t.Run(name+map[bool]string{true: "/RESP2", false: "/RESP3"}[resp2], func(t *testing.T) {
				t.Parallel()
				bubble(t, func(f *fixture) {
					o := &outside{movingAddress: f.movingAddress()}
					defer func() {
						for _, end := range slices.Backward(f.ends) {
							end()
						}
					}()
					o.rotate("a")
					if resp2 {
						refuseAUTH(o.redis)
						refuseAUTH(o.next)
					}
					logger, lines := logged()
					open := func(logger *slog.Logger) *signalbox.Session {
						return o.session(func(options *rueidis.ClientOption) {
							options.AlwaysRESP2, options.AuthCredentialsFn = resp2, o.credentials
							if c.mod != nil {
								c.mod(options)
							}
						}, signalbox.WithLogger(logger))
					}
					others := slog.New(slog.DiscardHandler)
					s := busy(o, open(logger), open(others))
					before := len(lines.String())
					c.changes(o)
					time.Sleep(20 * time.Second)
					switch said := strings.Split(lines.String()[before:], "\n"); c.says {
					case "":
						require.Equal(f, []string{""}, said)
					default:
						require.Len(f, said, 3, said)
						require.Contains(f, said[0], c.says)
					}
					s.requireUntouched()

					o.failOver(false)
					time.Sleep(40 * time.Second)
					s.requireUntouched()
					s.requireOver(open(others))
				})
			})
		}
	}
}

// busySession is a session that holds, waits, leads and owns shards, and what it waits for.
type busySession struct {
	*outside

	held, before signalbox.Lease
	granted      chan signalbox.Lease
	member       *shards.Member
	terms        chan election.Term
}

// busy makes s busy. other holds what s waits for.
func busy(o *outside, s, other *signalbox.Session) *busySession {
	b := &busySession{outside: o, granted: make(chan signalbox.Lease, 1), terms: make(chan election.Term, 9)}
	var err error
	b.held, err = reentrant.New(s, "held").Lock(o.Context())
	require.NoError(o, err)
	b.before, err = reentrant.New(other, "waited").Lock(o.Context())
	require.NoError(o, err)
	go func() {
		if lease, err := reentrant.New(s, "waited").Lock(o.Context()); err == nil {
			b.granted <- lease
		}
	}()
	ctx, cancel := context.WithCancel(o.Context())
	o.ends = append(o.ends, cancel)
	go func() {
		_ = election.New(s, "leader").Run(ctx, func(ctx context.Context, term election.Term) error {
			b.terms <- term
			<-ctx.Done()
			return nil
		})
	}()
	b.member, err = shards.New(s, "group", shards.Count(2)).Join(o.Context())
	require.NoError(o, err)
	time.Sleep(20 * time.Second)
	return b
}

// requireUntouched checks that nothing was lost.
func (b *busySession) requireUntouched() {
	synctest.Wait()
	require.NoError(b, b.held.Err())
	require.NoError(b, b.before.Err())
	require.Empty(b, b.granted)
	require.Len(b, b.terms, 1, "one term")
	require.NoError(b, b.member.Err())
	require.Equal(b, 2, b.member.Owned())
}

// requireOver checks that the server to which the address leads knows of it all, as a session finds that connects now, and that the
// waiter is next, by a message.
func (b *busySession) requireOver(newcomer *signalbox.Session) {
	for _, name := range []string{"held", "waited"} {
		_, err := reentrant.New(newcomer, name).TryLock(b.Context())
		require.ErrorIs(b, err, signalbox.ErrHeld)
	}
	leader, err := election.New(newcomer, "leader").Leader(b.Context())
	require.NoError(b, err)
	require.NotNil(b, leader)
	released := time.Now()
	require.NoError(b, b.before.Unlock())
	require.NoError(b, (<-b.granted).Unlock())
	require.Less(b, time.Since(released), 10*time.Millisecond, "by a message")
	require.NoError(b, b.held.Unlock())
}

// An older server that takes over the address is found by the version that it names, and the error says so. When the address leads
// back, calls succeed again.
func TestAnOlderServerThatTakesOverIsNamed(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		a := f.movingAddress()
		defer func() {
			for _, end := range slices.Backward(f.ends) {
				end()
			}
		}()
		a.next.Server().SetPreHook(func(c *server.Peer, command string, args ...string) bool {
			switch {
			case command == "HELLO":
				c.WriteRaw("*4\r\n$5\r\nproto\r\n:2\r\n$7\r\nversion\r\n$5\r\n5.0.7\r\n")
			case strings.HasPrefix(command, "EVAL") && (args[0] == scripts.SessionHello.SHA1 || args[0] == scripts.SessionHello.Source):
				c.WriteRaw("*2\r\n:0\r\n$16\r\n1795246514376753\r\n")
			default:
				return false
			}
			return true
		})
		s := a.session(nil, quiet)
		try := func() error { return locked(f.Context(), s) }
		lasting := func(want error) {
			for until := time.Now().Add(20 * time.Second); time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
				if err := try(); errors.Is(err, want) || err == nil && want == nil {
					return
				}
			}
			require.ErrorIs(f, try(), want)
		}
		lasting(nil)
		a.moved.Store(true)
		lasting(signalbox.ErrOldServer)
		require.ErrorIs(f, try(), signalbox.ErrOldServer)
		a.moved.Store(false)
		lasting(nil)
		require.NoError(f, try())
	})
}
