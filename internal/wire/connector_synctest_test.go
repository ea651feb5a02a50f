// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// P10: whatever fails, a client tries to connect at most twenty times a second, however many calls there are, and as
// soon as it works again.
func TestAttemptsToConnectArePaused(t *testing.T) {
	t.Parallel()
	refuses := func(words string) func(string) string {
		return func(string) string { return "-" + words + "\r\n" }
	}
	for name, c := range map[string]struct {
		fails   error
		accepts func(string) string
		denied  bool   // the function for credentials fails
		remedy  string // a part of what every error says to do
	}{
		"no connection":      {fails: &net.OpError{Op: "dial", Err: errors.New("refused")}},
		"no TLS":             {fails: errors.New("tls: bad certificate")},
		"accepted and ended": {accepts: func(string) string { return "" }},
		"wrong password":     {accepts: refuses("WRONGPASS invalid"), remedy: "renew the client's credentials"},
		"no credentials":     {accepts: welcomes, denied: true},
		"wrong password, and then served as another user": { // the client sends a PING before it closes the connection
			accepts: func(request string) string {
				if strings.Contains(request, "HELLO") {
					return "-WRONGPASS invalid\r\n"
				}
				return welcomes(request)
			}, remedy: "renew the client's credentials",
		},
		"ends at a request": {accepts: func(request string) string {
			if strings.Contains(request, "HELLO") {
				return greeting
			}
			return ""
		}},
		"a replica": {accepts: func(request string) string {
			if strings.Contains(request, "HELLO") {
				return greeting
			}
			return "-READONLY You can't write against a read only replica.\r\n"
		}, remedy: "let the address lead to the primary"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var f fakeServer
				f.set(nil, welcomes)
				denied := false
				client := f.client(t, func(o *rueidis.ClientOption) {
					o.ConnLifetime = -1
					o.AuthCredentialsFn = func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
						f.mu.Lock()
						defer f.mu.Unlock()
						if denied {
							return rueidis.AuthCredentials{}, errors.New("throttled")
						}
						return rueidis.AuthCredentials{}, nil
					}
				})
				defer client.Close()
				r := wire.NewRunner(client)
				_, err := r.Run(t.Context(), hello("key"))
				require.NoError(t, err)
				time.Sleep(5 * time.Second)

				f.set(c.fails, func(string) string { return "" }) // ends the connection that there is
				_, err = r.Run(t.Context(), hello("key"))
				require.Error(t, err)
				f.mu.Lock()
				if c.accepts != nil {
					f.reply = c.accepts
				}
				denied, f.dials = c.denied, nil
				f.mu.Unlock()
				var callers sync.WaitGroup
				until := time.Now().Add(5 * time.Second)
				for range 20 {
					callers.Go(func() {
						for time.Now().Before(until) {
							_, err := r.Run(t.Context(), hello("key"))
							if err == nil {
								t.Error("a call worked")
							} else if said := wire.Remedy(err); !strings.Contains(said, c.remedy) {
								t.Error(err, said)
							}
							time.Sleep(time.Millisecond)
						}
					})
				}
				callers.Wait()
				t.Logf("at most %d in a second, %d in all", f.maxDialsPerSecond(), f.dialCount())
				require.LessOrEqual(t, f.maxDialsPerSecond(), 20)
				require.Greater(t, f.dialCount(), 20)

				f.mu.Lock()
				denied = false
				f.mu.Unlock()
				f.set(nil, welcomes)
				begun := time.Now()
				for err = errors.New("none"); err != nil; time.Sleep(time.Millisecond) {
					_, err = r.Run(t.Context(), hello("key"))
				}
				require.Less(t, time.Since(begun), 300*time.Millisecond)
			})
		})
	}
}

// P10: once a server accepts a connection again, no call returns the refusal of another one before. So the holder that a message
// notifies of its grant can release it at once.
func TestRefusalEndsWithAnAcceptedConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var f fakeServer
		f.set(nil, welcomes)
		client := f.client(t)
		defer client.Close()
		r := wire.NewRunner(client)
		for range 40 { // the pauses are random
			_, err := r.Run(t.Context(), hello("key"))
			require.NoError(t, err)
			f.set(nil, func(string) string { return "" }) // ends the connection that there is
			_, err = r.Run(t.Context(), hello("key"))
			require.Error(t, err)
			f.set(nil, func(string) string { return "-WRONGPASS invalid\r\n" })
			for before := f.dialCount(); f.dialCount() < before+8; time.Sleep(time.Millisecond) {
				_, err = r.Run(t.Context(), hello("key"))
				require.ErrorIs(t, err, errs.ErrDenied)
			}
			f.set(nil, welcomes)
			other, release := client.Dedicate()
			require.NoError(t, other.Do(t.Context(), client.B().Ping().Build()).Error())
			_, err = r.Run(t.Context(), hello("key"))
			require.NoError(t, err)
			other.Close()
			release()
		}
	})
}

// P10: connections end by their age, between two requests: no call fails, none is sent twice.
func TestConnectionsEndByTheirAgeBetweenRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var f fakeServer
		served := 0
		f.set(nil, func(request string) string {
			if strings.Contains(request, "HELLO") {
				return greeting
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			served += strings.Count(request, "EVALSHA")
			return welcomes(request)
		})
		f.latency = time.Millisecond
		client := f.client(t)
		defer client.Close()
		r := wire.NewRunner(client)
		calls := 0
		var mu sync.Mutex
		var callers sync.WaitGroup
		until := time.Now().Add(20 * time.Second)
		for range 4 {
			callers.Go(func() {
				for time.Now().Before(until) {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					_, err := r.Run(ctx, hello("key"))
					if err != nil {
						t.Error(err)
					}
					for _, outcome := range r.RunMany(ctx, []wire.Call{hello("a"), hello("b")}) {
						if outcome.Err != nil {
							t.Error(outcome.Err)
						}
					}
					cancel()
					mu.Lock()
					calls += 3
					mu.Unlock()
				}
			})
		}
		for range 2 { // a program's own commands on the client, which it does not repeat by itself
			callers.Go(func() {
				for time.Now().Before(until) {
					if err := client.Do(t.Context(), client.B().Set().Key("a").Value("b").Build()).Error(); err != nil {
						t.Error(err)
					}
					for _, result := range client.DoMulti(t.Context(), client.B().Set().Key("a").Value("b").Build(), client.B().Set().Key("c").Value("d").Build()) {
						if err := result.Error(); err != nil {
							t.Error(err)
						}
					}
				}
			})
		}
		callers.Wait()
		require.Equal(t, calls, served)
		dials := f.dialCount()
		require.GreaterOrEqual(t, dials, 5) // each lasts 4 to 5 s
		require.LessOrEqual(t, dials, 6)
		time.Sleep(10 * time.Second)
		dials = f.dialCount()
		time.Sleep(time.Hour)
		require.Equal(t, dials, f.dialCount(), "no connection is made for nobody")
	})
}

// A connection stays, however old, while a reply is due on it.
func TestConnectionOutlivesItsAgeForAReply(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var f fakeServer
		served := 0
		f.set(nil, func(request string) string {
			if strings.Contains(request, "EVALSHA") {
				served++
				time.Sleep(20 * time.Second)
			}
			return welcomes(request)
		})
		client := f.client(t, func(o *rueidis.ClientOption) { o.ConnWriteTimeout = time.Minute })
		defer client.Close()
		_, err := wire.NewRunner(client).Run(t.Context(), hello("key"))
		require.NoError(t, err)
		require.Equal(t, 1, served)
	})
}

// P10: which refusals end a connection, and when. The call after that is made on a new one.
func TestRefusalsEndTheirConnection(t *testing.T) {
	t.Parallel()
	const never = time.Hour
	for words, after := range map[string]time.Duration{
		"READONLY You can't write against a read only replica.":               0,
		"ERR Error running script: @user_script:1: -READONLY You can't write": 0,
		"MASTERDOWN Link with MASTER is down":                                 0,
		"NOREPLICAS Not enough good replicas to write.":                       3 * time.Second,
		"LOADING Redis is loading the dataset in memory":                      3 * time.Second,
		"MISCONF Redis is configured to save RDB snapshots":                   never,
		"BUSY Redis is busy running a script.":                                never,
		"OOM command not allowed when used memory > 'maxmemory'.":             never,
		"MOVED 1 far:1":  0,
		"MOVED 1 near:2": 0, // the client follows none
	} {
		t.Run(words, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var f fakeServer
				f.set(nil, func(request string) string {
					if strings.Contains(request, "EVALSHA") {
						return "-" + words + "\r\n"
					}
					return welcomes(request)
				})
				client := f.client(t, func(o *rueidis.ClientOption) { o.ConnLifetime, o.DisableRetry = -1, true })
				defer client.Close()
				r := wire.NewRunner(client)
				time.Sleep(2 * time.Second) // it has lasted
				begun, left := time.Now(), never
				for time.Since(begun) < 10*time.Second && left == never {
					at := time.Since(begun)
					_, err := r.Run(t.Context(), hello("key"))
					require.Error(t, err)
					require.NoError(t, r.RunMany(t.Context(), []wire.Call{{Command: "PING"}})[0].Err)
					if len(f.dials) > 1 {
						left = at
					}
					time.Sleep(500 * time.Millisecond)
				}
				require.Equal(t, after, left)
			})
		})
	}
}

// P10: whatever refuses the second connection, the first one serves, and is replaced at an age at which it is not refused.
func TestConnectionFollowsItsAddressAfterARefusal(t *testing.T) {
	t.Parallel()
	for _, words := range []string{
		"connection refused", "ERR max number of clients reached", "LOADING the dataset", "an unknown proxy's own words",
		"WRONGPASS invalid username-password pair", "NOAUTH Authentication required.", "ERR unknown command 'HELLO'",
	} {
		t.Run(words, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var f fakeServer
				f.set(nil, welcomes)
				client := f.client(t)
				defer client.Close()
				r := wire.NewRunner(client)
				used := func(d time.Duration) (dials int) {
					before := f.dialCount()
					for until := time.Now().Add(d); time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
						_, err := r.Run(t.Context(), hello("key"))
						require.NoError(t, err)
					}
					return f.dialCount() - before
				}
				var dialErr error
				if words == "connection refused" {
					dialErr = errors.New(words)
				}
				f.set(dialErr, func(request string) string {
					if strings.Contains(request, "HELLO") {
						return "-" + words + "\r\n"
					}
					return welcomes(request)
				})
				require.NotZero(t, used(10*time.Second))
				f.set(nil, welcomes)
				require.NotZero(t, used(10*time.Second))
			})
		})
	}
}

// P10: a connection that was idle for long is replaced before it is used again. If that takes longer than a second, or fails, the
// request is written on the one that there is.
func TestIdleConnectionIsReplacedBeforeItIsUsed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fails   error
		delay   time.Duration // what the next connection takes
		waits   time.Duration // how long the first request waits
		replies string        // the server that replies to it
	}{
		"at once": {replies: "new"},
		"slow":    {delay: 300 * time.Millisecond, waits: 300 * time.Millisecond, replies: "new"},
		"stuck":   {delay: time.Hour, waits: time.Second, replies: "old"},
		"refused": {fails: errors.New("refused"), replies: "old"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var f fakeServer
				f.set(nil, welcomes)
				server, delay := "old", time.Duration(0)
				client := f.client(t, func(o *rueidis.ClientOption) {
					o.DialCtxFn = func(ctx context.Context, addr string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
						select {
						case <-time.After(delay):
						case <-ctx.Done():
							return nil, ctx.Err()
						}
						conn, err := f.dial(ctx, addr, dialer, config)
						return &namedConn{conn, server, &f}, err
					}
				})
				defer client.Close()
				r := wire.NewRunner(client)
				_, err := r.Run(t.Context(), hello("key"))
				require.NoError(t, err)
				time.Sleep(time.Hour + 300*time.Millisecond) // between two pings: the fake server replies alike to what comes in one piece
				require.Len(t, f.dials, 2, "the second one is for what the first one was used")
				server, delay = "new", c.delay
				f.set(c.fails, welcomes)
				begun := time.Now()
				_, err = r.Run(t.Context(), hello("key"))
				require.NoError(t, err)
				require.Equal(t, c.waits, time.Since(begun))
				require.Equal(t, c.replies, f.lastServer())
			})
		})
	}
}

// P10: a connection that gets subscriptions, or another state, while the second one is made is not replaced. The server would no
// longer have what the client believes, and the client panics at replies that come in another order.
func TestAConnectionThatGetsAStateIsNotReplaced(t *testing.T) {
	t.Parallel()
	for name, command := range map[string]func(rueidis.Builder) rueidis.Completed{
		"subscribe": func(b rueidis.Builder) rueidis.Completed { return b.Subscribe().Channel("a").Build() },
		"watch":     func(b rueidis.Builder) rueidis.Completed { return b.Watch().Key("a").Build() },
		"select":    func(b rueidis.Builder) rueidis.Completed { return b.Select().Index(3).Build() },
		"multi":     func(b rueidis.Builder) rueidis.Completed { return b.Multi().Build() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var f fakeServer
				f.set(nil, func(request string) string {
					if strings.Contains(request, "SUBSCRIBE") {
						return ">3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n"
					}
					return welcomes(request)
				})
				var isNext atomic.Bool
				dialed := make(chan struct{})
				client := f.client(t, func(o *rueidis.ClientOption) {
					o.DialCtxFn = func(ctx context.Context, addr string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
						name := "old"
						if isNext.Load() {
							name = "new"
							close(dialed)
							time.Sleep(1500 * time.Millisecond)
						}
						conn, err := f.dial(ctx, addr, dialer, config)
						return &namedConn{conn, name, &f}, err
					}
				})
				defer client.Close()
				require.NoError(t, client.Do(t.Context(), client.B().Set().Key("a").Value("b").Build()).Error())
				isNext.Store(true)
				<-dialed
				require.NoError(t, client.Do(t.Context(), command(client.B())).Error())
				time.Sleep(3 * time.Second)
				require.NoError(t, client.Do(t.Context(), client.B().Set().Key("a").Value("b").Build()).Error())
				require.Equal(t, "old", f.lastServer())
			})
		})
	}
}

// P10: a connection that the server accepts only after its age is replaced as any other is.
func TestConnectionThatIsAcceptedLateIsReplaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var f fakeServer
		f.set(nil, func(request string) string {
			if strings.Contains(request, "HELLO") {
				time.Sleep(time.Second)
			}
			return welcomes(request)
		})
		client := f.client(t, func(o *rueidis.ClientOption) { o.ConnLifetime = 500 * time.Millisecond })
		r := wire.NewRunner(client)
		_, err := r.Run(t.Context(), hello("key"))
		require.NoError(t, err)
		dials := f.dialCount()
		for range 50 {
			_, err = r.Run(t.Context(), hello("key"))
			require.NoError(t, err)
			time.Sleep(100 * time.Millisecond)
		}
		require.Greater(t, f.dialCount(), dials)
		client.Close()
		time.Sleep(time.Second) // until the server has replied
	})
}

// Close waits for a request that waits for the next connection, and so for a second at most.
func TestCloseWaitsForARequestThatWaitsForAConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var f fakeServer
		f.set(nil, welcomes)
		delay := time.Duration(0)
		client := f.client(t, func(o *rueidis.ClientOption) {
			o.DialCtxFn = func(ctx context.Context, addr string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
				time.Sleep(delay)
				return f.dial(ctx, addr, dialer, config)
			}
		})
		_, err := wire.NewRunner(client).Run(t.Context(), hello("key"))
		require.NoError(t, err)
		time.Sleep(time.Hour + 300*time.Millisecond)
		delay = time.Minute
		ended := make(chan error)
		go func() { ended <- client.Do(t.Context(), client.B().Get().Key("a").Build()).Error() }()
		time.Sleep(100 * time.Millisecond)
		begun := time.Now()
		client.Close()
		require.NoError(t, <-ended)
		require.LessOrEqual(t, time.Since(begun), time.Second)
		time.Sleep(time.Minute)
	})
}

// What a program sends first on a connection is not repeated on the next one, unless it sets the connection up.
func TestOnlyWhatSetsAConnectionUpIsRepeated(t *testing.T) {
	t.Parallel()
	for words, want := range map[string]int{"CLIENT PAUSE 700 WRITE": 1, "CLIENT KILL TYPE normal": 1, "CLIENT SETNAME teller": 2} {
		t.Run(words, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var f fakeServer
				word, sent := strings.Fields(words)[1], 0
				f.set(nil, func(request string) string {
					f.mu.Lock()
					defer f.mu.Unlock()
					sent += strings.Count(request, word)
					return welcomes(request)
				})
				client := f.client(t)
				defer client.Close()
				require.NoError(t, client.Do(t.Context(), client.B().Arbitrary(strings.Fields(words)...).Build()).Error())
				time.Sleep(6 * time.Second)
				require.Equal(t, 2, f.dialCount())
				f.mu.Lock()
				defer f.mu.Unlock()
				require.Equal(t, want, sent)
			})
		})
	}
}

// P10: what is no reply ends its connection. The client would panic at it, or allocate as much memory as it announces.
func TestWhatIsNoReplyEndsItsConnection(t *testing.T) {
	t.Parallel()
	for _, odd := range []string{
		"+OK\r\n+OK\r\n", "-ERR a\r\n-ERR b\r\n", "$-7\r\n", "*-7\r\n", "%-1\r\n", "|-1\r\n", ">-7\r\n", "$9223372036854775807\r\n", "*9223372036854775807\r\n",
		"$536870913\r\n", "*16777217\r\n", "*1\r\n*16777217\r\n", "!99999999999\r\n", "HTTP/1.1 400 Bad Request\r\n",
		strings.Repeat("*1\r\n", 129) + ":1\r\n", strings.Repeat("%1\r\n:1\r\n", 129) + ":1\r\n", "*1\r\n>1\r\n:1\r\n",
		">3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n", "-MOVED\r\n", "-MOVED 1\r\n", "-ASKING no\r\n",
	} {
		for _, resp2 := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				f := &fakeServer{reply: welcomes}
				client := f.client(t, func(o *rueidis.ClientOption) { o.AlwaysRESP2, o.DisableRetry = resp2, true })
				defer client.Close()
				get := client.B().Get().Key("a").Build().Pin()
				require.NoError(t, client.Do(t.Context(), get).Error())
				before := f.dialCount()
				f.set(nil, func(request string) string {
					if strings.Contains(request, "GET") {
						return odd
					}
					return welcomes(request)
				})
				err := client.Do(t.Context(), get).Error()
				for again := 0; err == nil && again < 2; again++ { // the first of two replies may have come by itself
					err = client.Do(t.Context(), get).Error()
				}
				require.Error(t, err, "%q", odd)
				f.set(nil, welcomes)
				require.NoError(t, client.Do(t.Context(), get).Error())
				require.Greater(t, f.dialCount(), before)
			})
		}
	}
}

// The client reads the first values of some replies without looking whether they are there.
func TestShortRepliesToTheClientsOwnQuestionsEndTheirConnection(t *testing.T) {
	t.Parallel()
	for request, odd := range map[string]string{"ROLE": "*0\r\n", "SENTINEL GET-MASTER-ADDR-BY-NAME main": "*1\r\n$1\r\na\r\n"} {
		synctest.Test(t, func(t *testing.T) {
			reply := odd
			f := &fakeServer{reply: func(request string) string {
				if strings.Contains(request, "ROLE") || strings.Contains(request, "SENTINEL") {
					return reply
				}
				return welcomes(request)
			}}
			client := f.client(t, func(o *rueidis.ClientOption) { o.DisableRetry = true })
			defer client.Close()
			ask := client.B().Arbitrary(strings.Fields(request)...).Build().Pin()
			require.ErrorContains(t, client.Do(t.Context(), ask).Error(), "no reply to what it was asked", request)
			for _, reply = range []string{"*-1\r\n", "*2\r\n$1\r\na\r\n$1\r\nb\r\n", "-ERR a\r\n"} {
				require.NotContains(t, fmt.Sprint(client.Do(t.Context(), ask).Error()), "no reply to what it was asked")
			}
		})
	}
}

// What a server says on a connection with subscriptions ends it if the client would panic at it, and only then.
func TestASubscribedConnectionEndsAtWhatIsNoReply(t *testing.T) {
	t.Parallel()
	confirm := func(kind, channel string) string {
		return fmt.Sprintf(">3\r\n$%d\r\n%s\r\n$1\r\n%s\r\n:1\r\n", len(kind), kind, channel)
	}
	both := confirm("subscribe", "a") + confirm("subscribe", "b")
	message := strings.Replace(confirm("message", "a"), ":1", "+a", 1)
	left := confirm("unsubscribe", "a") + confirm("unsubscribe", "b")
	const pong, pong2, refused = "+PONG\r\n", "*2\r\n$4\r\npong\r\n$0\r\n\r\n", "-NOPERM a\r\n"
	for name, c := range map[string]struct {
		subscribe, unsubscribe, ping string
		first, ends                  bool // first: as the client begins at a sentinel
	}{
		"As it should be":              {message + both + message, left, pong, false, false},
		"Left at first":                {both, left, pong, true, false},
		"RESP2":                        {both, left, pong2, false, false},
		"Refused":                      {refused, left, pong, false, false},
		"Leaving is refused":           {both, refused, pong, false, false},
		"Both are refused":             {refused, refused, "-NOPERM 'ping'\r\n", false, false},
		"Of a slot that moved":         {both + confirm("sunsubscribe", "c"), left, pong, false, false},
		"Surplus":                      {both + "+OK\r\n", left, pong, false, true},
		"An error behind all":          {both + "-ERR idle for too long\r\n", left, pong, false, true},
		"A second confirmation":        {both + confirm("subscribe", "c"), left, pong, false, true},
		"A confirmation in a PING":     {both, left, confirm("ssubscribe", "c"), false, true},
		"Queued":                       {"+QUEUED\r\n", left, pong, false, true},
		"Leaving is queued":            {both, "+QUEUED\r\n", pong, false, true},
		"Leaving is refused, no pong":  {both, refused, "+OK\r\n", false, true},
		"Leaving is refused, no reply": {both, refused + "+OK\r\n", pong, false, true},
	} {
		for _, resp2 := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				f := &fakeServer{reply: func(request string) string {
					reply := welcomes(request)
					switch {
					case strings.Contains(request, "UNSUBSCRIBE"):
						reply = c.unsubscribe
					case strings.Contains(request, "SUBSCRIBE"):
						reply = c.subscribe
					case strings.Contains(request, "PING"):
						reply = c.ping
					}
					if resp2 {
						reply = strings.ReplaceAll(reply, ">", "*")
					}
					return reply
				}}
				client := f.client(t, func(o *rueidis.ClientOption) { o.AlwaysRESP2, o.DisableRetry = resp2, true })
				defer client.Close()
				dedicated, release := client.Dedicate()
				defer release()
				broken := dedicated.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(rueidis.PubSubMessage) {}})
				if c.first {
					_ = dedicated.Do(t.Context(), client.B().Unsubscribe().Channel("a", "b").Build()).Error()
				}
				_ = dedicated.Do(t.Context(), client.B().Subscribe().Channel("a", "b").Build()).Error()
				_ = dedicated.Do(t.Context(), client.B().Unsubscribe().Build()).Error()
				synctest.Wait()
				select {
				case err := <-broken:
					require.True(t, c.ends, "%s, %v: %v", name, resp2, err)
				default:
					require.False(t, c.ends, "%s, %v", name, resp2)
				}
			})
		}
	}
}

// A connection that cannot be replaced, since a reply is due all the time, is a failure until it can.
func TestLateRepliesKeepAConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fakeServer{reply: welcomes}
		client := f.client(t, func(o *rueidis.ClientOption) { o.ConnWriteTimeout = time.Minute })
		defer time.Sleep(time.Minute) // the server still waits before it replies
		defer client.Close()
		r := wire.NewRunner(client)
		// call makes calls until the reasons of the failures are want, for an hour at most.
		call := func(latency time.Duration, want string) {
			f.mu.Lock()
			f.latency = latency
			f.mu.Unlock()
			var callers sync.WaitGroup
			var over atomic.Bool
			for i := range 3 {
				callers.Go(func() {
					time.Sleep(time.Duration(i) * latency / 3)
					for !over.Load() {
						_, _ = r.Run(t.Context(), hello("key"))
						time.Sleep(time.Millisecond)
					}
				})
			}
			var reasons string
			for until := time.Now().Add(time.Hour); time.Now().Before(until); time.Sleep(time.Second) {
				found, _ := wire.Failures(client)
				reasons = ""
				for _, err := range found {
					reasons += err.Error()
				}
				if reasons == want {
					break
				}
			}
			over.Store(true)
			callers.Wait()
			require.Equal(t, want, reasons)
		}
		call(1500*time.Millisecond, "replies are due for more than 1s, and the connection is replaced when none is")
		call(time.Millisecond, "")
	})
}
