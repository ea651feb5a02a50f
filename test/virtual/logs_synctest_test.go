// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/semaphore"
)

// A hundred leases that are lost within a second make one line, with their number and the first of them.
func TestAHundredLossesMakeOneLine(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		logger, lines := logged()
		s, dead := f.open(signalbox.WithLogger(logger), signalbox.WithDefaults(signalbox.WithClass("orders")))
		for i := range 100 {
			atOnce(f.T, reentrant.New(s, fmt.Sprint("order/", i)))
		}
		dead.goSilent()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		lost := matching(lines.String(), "a lease was lost")
		require.Len(f, lost, 1)
		for _, want := range []string{"level=WARN", "kind=reentrant class=orders name=order/", "gone=false", "left=", "token=", "events=100"} {
			require.Contains(f, lost[0], want)
		}
	})
}

// What was counted when the session closes is logged by then. A lease that Close ends has its line already.
func TestCloseLogsWhatWasGathered(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		logger, lines := logged()
		s := f.user(signalbox.WithLogger(logger)).Session
		lease := atOnce(f.T, reentrant.New(s, "a"))
		require.NoError(f, no(reentrant.New(s, "b").Lock(f.Context())))
		f.redis.Del("sb:{a}:lock")
		require.ErrorIs(f, reentrant.New(s, "a").ForceUnlock(f.Context()), signalbox.ErrNotHeld)
		time.Sleep(1500 * time.Millisecond) // the first renewal finds it gone
		require.ErrorIs(f, lease.Err(), signalbox.ErrLost)
		_ = s.Close(locktest.Ended())
		synctest.Wait()
		require.Len(f, matching(lines.String(), "a lease was lost"), 1)
		require.Len(f, matching(lines.String(), "not unlocked yet"), 1)
	})
}

// Releases without a reply, and calls that the server refuses, have lines of their own. A held lock is not logged.
func TestUnconfirmedAndRefusedCallsAreLogged(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		logger, lines := logged()
		s, dead := f.open(signalbox.WithLogger(logger))
		mu := reentrant.New(s, "a")
		lease := atOnce(f.T, mu)
		require.ErrorIs(f, no(mu.TryLock(f.Context())), signalbox.ErrHeld)
		time.Sleep(2 * time.Second)
		require.Empty(f, lines.String())
		f.redis.SetError("LOADING Redis is loading the dataset in memory")
		for range 3 {
			require.ErrorIs(f, no(reentrant.New(s, "b").TryLock(f.Context())), signalbox.ErrRefused)
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
	bubbleOfUsers(t, func(f *fixture) {
		logger, lines := logged()
		s, wire := f.open(signalbox.WithLogger(logger))
		atOnce(f.T, reentrant.New(s, "a"))
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
	bubbleOfUsers(t, func(f *fixture) {
		logger, lines := logged()
		s := f.user(signalbox.WithLogger(logger)).Session
		server := f.scriptReplies(false)
		for range 600 {
			server.say("", 0)
			lease := atOnce(f.T, reentrant.New(s, strings.Repeat("long", 100), signalbox.WithFixedLease(5*time.Second)))
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

// outage is what happens to a server for a while, and what the log says of it.
type outage struct {
	begin, end   func(link *wire, server *scriptedServer)
	begins, ends string // texts that the lines of the log contain
	remedy       string // what the first line says to do
}

func outages() map[string]outage {
	say := func(words string) func(*wire, *scriptedServer) {
		return func(_ *wire, server *scriptedServer) { server.say(words, -1) }
	}
	quiet := func(_ *wire, server *scriptedServer) { server.say("", 0) }
	refused := func(words, remedy string) outage {
		return outage{say(words), quiet, "the server refuses calls", "the server accepts calls again", remedy}
	}
	unreachable := outage{begins: "the server cannot be reached", ends: "the server can be reached again", remedy: "check that the server runs"}
	gone, dead := unreachable, unreachable
	gone.begin = func(link *wire, _ *scriptedServer) { link.refuse() }
	dead.begin = func(link *wire, _ *scriptedServer) { link.goSilent() }
	gone.end = func(link *wire, _ *scriptedServer) { link.heal() }
	dead.end = gone.end
	return map[string]outage{
		"Gone":        gone,
		"Frozen":      dead,
		"Replica":     refused("READONLY You can't write against a read only replica.", "let the address lead to the primary"),
		"Full":        refused("OOM command not allowed when used memory > 'maxmemory'.", "raise maxmemory"),
		"NoDisk":      refused("MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.", "make room on the server's disk"),
		"NoReplicas":  refused("NOREPLICAS Not enough good replicas to write.", "bring the server's replicas back"),
		"Loading":     refused("LOADING Redis is loading the dataset in memory", "wait until the server has read its data"),
		"Busy":        refused("BUSY Redis is busy running a script.", "SCRIPT KILL"),
		"ClusterDown": refused("CLUSTERDOWN The cluster is down", "give the cluster a primary for each slot"),
		"Moving":      refused(slotMoves, "finish the move of slots"),
		"MaxClients":  refused("ERR max number of clients reached", "raise maxclients"),
		"Proxy":       refused("upstream failure", "docs/refusals.md"),
		"Password": {
			say("WRONGPASS invalid username-password pair"), quiet, "the server denies a right", "the server grants the right again", "renew the client's credentials",
		},
	}
}

// An outage of ten seconds is two lines in the log of each session: one that says what to do, and one that says how long it
// took. It does not matter how many calls wait, or whether callers try again by themselves. One that passes within five seconds is not
// logged, unless it is a right that is missing.
func TestAnOutageIsLoggedOnceAndItsEndToo(t *testing.T) {
	t.Parallel()
	for name, o := range outages() {
		for how, call := range map[string]func(*signalbox.Session, context.Context){
			"Waiters": func(s *signalbox.Session, ctx context.Context) {
				for i := range 50 {
					go func() { _, _ = reentrant.New(s, fmt.Sprint(i)).Lock(ctx) }()
				}
			},
			"Tries": func(s *signalbox.Session, ctx context.Context) {
				for ctx.Err() == nil {
					within, cancel := context.WithTimeout(ctx, time.Second)
					_, _ = reentrant.New(s, "a").Lock(within)
					cancel()
					time.Sleep(200 * time.Millisecond)
				}
			},
		} {
			t.Run(name+"/"+how, func(t *testing.T) {
				t.Parallel()
				bubbleOfUsers(t, func(f *fixture) {
					f.probe = time.Second // as clients that are tuned do
					logger, log := logged()
					s, link := f.open(signalbox.WithLogger(logger))
					server := f.scriptReplies(false)
					atOnce(f.T, reentrant.New(s, "before"))
					time.Sleep(10 * time.Second) // it has its whole lease
					if name != "Password" {
						o.begin(link, server)
						time.AfterFunc(2*time.Second, func() { o.end(link, server) })
						require.NoError(f, atOnce(f.T, reentrant.New(s, "short")).Unlock())
						time.Sleep(10 * time.Second)
						synctest.Wait()
						require.NotContains(f, log.String(), o.begins) // messages may be away for longer: they are asked for after pauses that grow
					}
					ctx, cancel := context.WithCancel(f.Context())
					defer cancel() // also if the test fails: the bubble waits for the callers
					o.begin(link, server)
					go call(s, ctx)
					time.Sleep(10*time.Second + 300*time.Microsecond)
					synctest.Wait()
					begun := matching(log.String(), o.begins)
					require.Len(f, begun, 1, log)
					require.Contains(f, begun[0], "level=WARN")
					require.Contains(f, begun[0], o.remedy)
					o.end(link, server)
					time.Sleep(15 * time.Second)
					cancel()
					synctest.Wait()
					require.Len(f, matching(log.String(), o.begins), 1, log)
					ended := matching(log.String(), o.ends)
					require.Len(f, ended, 1, log)
					require.Regexp(f, ` after=([7-9]\.|1\d)\.?\d*s `, ended[0])
				})
			})
		}
	}
}

// A right that is missing for one name is logged once a minute, however many calls wait for it and whatever calls about others succeed; and
// once when it is there again.
func TestAMissingRightIsLoggedOnceAMinute(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		logger, log := logged()
		s := f.user(signalbox.WithLogger(logger)).Session
		require.NoError(f, locked(f.Context(), s))
		server := f.scriptReplies(false)
		server.about = "{denied}"
		server.say("NOAUTH Authentication required.", -1)
		for range 20 {
			go func() { _, _ = reentrant.New(s, "denied").Lock(f.Context()) }()
		}
		for range 210 {
			time.Sleep(time.Second)
			require.NoError(f, locked(f.Context(), s))
		}
		synctest.Wait()
		require.Len(f, matching(log.String(), "the server denies a right"), 4)
		require.Empty(f, matching(log.String(), "the server grants"))
		server.say("", 0)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		require.Len(f, matching(log.String(), "the server grants the right again"), 1)
	})
}

// A server's clock that is set back is logged, and when it has caught up: a lock whose holder has crashed stays held until then.
func TestAClockThatIsSetBackIsLogged(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		logger, log := logged()
		s := f.user(signalbox.WithLogger(logger)).Session
		back := time.Duration(0)
		set := func() { f.redis.SetTime(time.Now().Add(-back)) }
		call := func(seconds int) {
			for range seconds {
				time.Sleep(time.Second)
				set()
				lease := atOnce(f.T, reentrant.New(s, "a"))
				require.NoError(f, lease.Unlock())
			}
			synctest.Wait()
		}
		call(5)
		back = time.Minute
		call(4)
		require.Empty(f, matching(log.String(), "was set back"))
		call(6)
		line := matching(log.String(), "was set back")
		require.Len(f, line, 1)
		require.Contains(f, line[0], "by=1m0s")
		call(80)
		require.Len(f, matching(log.String(), "the server's clock was set back"), 1)
		require.Len(f, matching(log.String(), "the server's clock shows again"), 1)
	})
}

// Another call shows that an outage is over, if the one that failed is not made again.
func TestAnotherCallShowsThatAnOutageIsOver(t *testing.T) {
	t.Parallel()
	for name, quiet := range map[string]time.Duration{
		"Password": 4 * time.Second, "Loading": 4 * time.Second, "Busy": 4 * time.Second, "MaxClients": 4 * time.Second, "Full": time.Minute, "Replica": time.Minute,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubbleOfUsers(t, func(f *fixture) {
				logger, log := logged()
				s, link := f.open(signalbox.WithLogger(logger))
				server, o := f.scriptReplies(false), outages()[name]
				require.NoError(f, no(reentrant.New(s, "before").Lock(f.Context())))
				time.Sleep(10 * time.Second) // it has its whole lease
				o.begin(link, server)
				ctx, cancel := context.WithTimeout(f.Context(), 7*time.Second)
				defer cancel()
				require.Error(f, no(reentrant.New(s, "a").Lock(ctx)))
				synctest.Wait()
				require.Len(f, matching(log.String(), o.begins), 1, log)
				o.end(link, server)
				time.Sleep(quiet)
				require.NoError(f, no(semaphore.New(s, "b", 2).Acquire(f.Context(), 1)))
				synctest.Wait()
				require.Len(f, matching(log.String(), o.ends), 1, log)
			})
		})
	}
}

// logHandler is the handler of a program's logger: do is its own code.
type logHandler struct {
	slog.Handler

	do func()
}

func (logHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h logHandler) Handle(context.Context, slog.Record) error {
	h.do()
	return nil
}

// P2, P4, P7: a handler of the log that blocks, panics, or calls the session, ends no lease and no program, collects no
// goroutines, and holds Close up no longer than its context.
func TestAnyHandlerOfTheLogHoldsUpNothing(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(s *signalbox.Session, block <-chan struct{}){
		"Blocks": func(_ *signalbox.Session, block <-chan struct{}) { <-block },
		"Panics": func(*signalbox.Session, <-chan struct{}) { panic("a bug") },
		"Exits":  func(*signalbox.Session, <-chan struct{}) { runtime.Goexit() },
		"Locks": func(s *signalbox.Session, _ <-chan struct{}) {
			if lease, err := reentrant.New(s, "log").Lock(context.Background()); err == nil {
				_ = lease.Unlock()
			}
		},
		"Closes": func(s *signalbox.Session, _ <-chan struct{}) { _ = s.Close(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubbleOfUsers(t, func(f *fixture) {
				c, _ := f.client(f.T)
				block, called := make(chan struct{}), 0
				var s *signalbox.Session
				s = signalbox.NewSession(c, signalbox.WithCloseGrace(time.Second), signalbox.WithLogger(slog.New(logHandler{do: func() {
					if called++; name != "Closes" || called == 4 {
						do(s, block)
					}
				}})))
				kept, err := reentrant.New(s, "kept", signalbox.WithRenewedLease(10*time.Second)).Lock(f.Context())
				require.NoError(f, err)
				time.Sleep(time.Second) // it listens for a ForceUnlock
				atFirst := resting()
				for range 30 {
					lease, err := reentrant.New(s, "lost").Lock(f.Context())
					if err != nil {
						require.Equal(f, "Closes", name)
						break
					}
					f.redis.Del(locktest.Key("lost"))
					time.Sleep(2 * time.Second) // the loss is worth a line
					require.ErrorIs(f, lease.Err(), signalbox.ErrLost)
				}
				time.Sleep(5 * time.Second) // the grace of a Close
				require.Equal(f, name == "Closes", kept.Err() != nil)
				require.LessOrEqual(f, resting(), atFirst+1)
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				defer cancel()
				began := time.Now()
				_ = s.Close(ctx)
				require.LessOrEqual(f, time.Since(began), 2*time.Second+slack)
				close(block)
				time.Sleep(time.Minute)
				if name == "Exits" {
					require.Greater(f, called, 1, "the lines after it are written")
				}
				c.Close()
			})
		})
	}
}
