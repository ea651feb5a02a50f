// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/semaphore"
)

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
	gone.begin = func(link *wire, _ *scriptedServer) { link.refuses.Store(true); link.cut() }
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
// took. It does not matter how many calls wait, or whether callers try again by themselves.
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
				bubble(t, func(f *fixture) {
					f.probe = time.Second // as clients that are tuned do
					logger, log := logged()
					s, link, end := f.session(f.T, signalbox.WithLogger(logger))
					defer end()
					server := f.scriptReplies(false)
					_, err := reentrant.New(s, "before").Lock(f.Context())
					require.NoError(f, err)
					time.Sleep(10 * time.Second) // it has its whole lease
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
					require.Regexp(f, ` after=(9\.|1\d)\.?\d*s `, ended[0])
				})
			})
		}
	}
}

// A failure that passes within five seconds is not logged, nor is anything while all is well.
func TestAShortOutageIsNotLogged(t *testing.T) {
	t.Parallel()
	for name, o := range outages() {
		if name == "Password" {
			continue // which is logged at once
		}
		bubble(t, func(f *fixture) {
			logger, log := logged()
			s, link, end := f.session(f.T, signalbox.WithLogger(logger))
			defer end()
			server := f.scriptReplies(false)
			for i := range 4 {
				if i == 2 {
					o.begin(link, server)
					time.AfterFunc(2*time.Second, func() { o.end(link, server) })
				}
				lease, err := reentrant.New(s, "a").Lock(f.Context())
				require.NoError(f, err)
				require.NoError(f, lease.Unlock())
				time.Sleep(4 * time.Second)
			}
			synctest.Wait()
			require.Empty(f, matching(log.String(), o.begins), name)
			require.Empty(f, matching(log.String(), o.ends), name)
		})
	}
}

// A right that is missing again is logged once a minute, however many calls wait for it.
func TestAMissingRightIsLoggedOnceAMinute(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		logger, log := logged()
		s, _, end := f.session(f.T, signalbox.WithLogger(logger))
		defer end()
		server := f.scriptReplies(false)
		lease, err := reentrant.New(s, "a").Lock(f.Context())
		require.NoError(f, err)
		require.NoError(f, lease.Unlock())
		server.say("NOAUTH Authentication required.", -1)
		ctx, cancel := context.WithCancel(f.Context())
		for i := range 20 {
			go func() { _, _ = reentrant.New(s, fmt.Sprint(i)).Lock(ctx) }()
		}
		time.Sleep(3*time.Minute + 30*time.Second)
		synctest.Wait()
		require.Len(f, matching(log.String(), "the server denies a right"), 4)
		server.say("", 0)
		time.Sleep(5 * time.Second)
		cancel()
		synctest.Wait()
		require.Len(f, matching(log.String(), "the server grants the right again"), 1)
	})
}

// While one name is refused, the others do not hide it.
func TestOneNameThatIsRefusedIsLogged(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		logger, log := logged()
		s, _, end := f.session(f.T, signalbox.WithLogger(logger))
		defer end()
		lease, err := reentrant.New(s, "a").Lock(f.Context())
		require.NoError(f, err)
		require.NoError(f, lease.Unlock())
		server := f.scriptReplies(false)
		server.about = "{a}"
		server.say("NOPERM No permissions to access a key", -1)
		go func() { _, _ = reentrant.New(s, "a").Lock(f.Context()) }()
		for range 20 {
			time.Sleep(time.Second)
			lease, err := reentrant.New(s, "b").Lock(f.Context())
			require.NoError(f, err)
			require.NoError(f, lease.Unlock())
		}
		synctest.Wait()
		require.Len(f, matching(log.String(), "the server denies a right"), 1)
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
	bubble(t, func(f *fixture) {
		logger, log := logged()
		s, _, end := f.session(f.T, signalbox.WithLogger(logger))
		defer end()
		back := time.Duration(0)
		set := func() { f.redis.SetTime(time.Now().Add(-back)) }
		call := func(seconds int) {
			for range seconds {
				time.Sleep(time.Second)
				set()
				lease, err := reentrant.New(s, "a").Lock(f.Context())
				require.NoError(f, err)
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
			bubble(t, func(f *fixture) {
				logger, log := logged()
				s, link, end := f.session(f.T, signalbox.WithLogger(logger))
				defer end()
				server, o := f.scriptReplies(false), outages()[name]
				_, err := reentrant.New(s, "before").Lock(f.Context())
				require.NoError(f, err)
				time.Sleep(10 * time.Second) // it has its whole lease
				o.begin(link, server)
				ctx, cancel := context.WithTimeout(f.Context(), 7*time.Second)
				defer cancel()
				_, err = reentrant.New(s, "a").Lock(ctx)
				require.Error(f, err)
				synctest.Wait()
				require.Len(f, matching(log.String(), o.begins), 1, log)
				o.end(link, server)
				time.Sleep(quiet)
				_, err = semaphore.New(s, "b", 2).Acquire(f.Context(), 1)
				require.NoError(f, err)
				synctest.Wait()
				require.Len(f, matching(log.String(), o.ends), 1, log)
			})
		})
	}
}
