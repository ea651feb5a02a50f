// SPDX-License-Identifier: Apache-2.0

package redistest_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

func TestStartedServerReplies(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	require.Equal(t, "PONG", s.MustDo(t, "PING"))
	require.Equal(t, "redis://"+s.Addr(), s.URL())
	redistest.Await(t, "the server's log", func() bool { return strings.Contains(s.Log(), "eady to accept connections") })
}

func TestRestartedServerIsEmptyOnTheSamePort(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	addr, pid := s.Addr(), s.PID()
	s.MustDo(t, "SET", "k", 1)
	r := dial(t, addr)
	r.send(words("PING"))
	r.lines("+PONG") // a connection that was not yet accepted would be reset

	s.Kill()
	r.closed()
	_, err := s.Do("PING")
	require.Error(t, err)

	s.Restart()
	require.Equal(t, addr, s.Addr())
	require.NotEqual(t, pid, s.PID())
	require.Empty(t, s.Keys("*"))
}

func TestRestartOfARunningServerReplacesIt(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.MustDo(t, "SET", "k", 1)
	s.Restart()
	require.Nil(t, s.MustDo(t, "GET", "k"))
}

func TestFrozenServerIsSilentUntilThawed(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	r := dial(t, s.Addr())
	s.Freeze()
	r.send(words("PING"))
	r.silent()
	s.Thaw()
	r.lines("+PONG")
}

func TestFrozenServerCanBeKilledAndRestarted(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Freeze()
	s.Kill()
	s.Restart()
	require.Equal(t, "PONG", s.MustDo(t, "PING"))
	s.Freeze() // the end of the test must cope with it
}

func TestStopEndsTheServerInOrder(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Stop()
	require.Contains(t, s.Log(), "SIGTERM")
	_, err := s.Do("PING")
	require.Error(t, err)
}

func TestSignalToAnEndedServerIsReported(t *testing.T) {
	t.Parallel()
	for name, act := range map[string]func(*redistest.Server){
		"Freeze": (*redistest.Server).Freeze,
		"Thaw":   (*redistest.Server).Thaw,
		"Stop":   (*redistest.Server).Stop,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := redistest.StartServer()
			require.NoError(t, err)
			s.Close()
			s.Close() // twice is fine
			require.PanicsWithValue(t, strings.ToLower(name)+" server "+s.Addr()+": redistest: process has ended",
				func() { act(s) })
		})
	}
}

func TestUsedPortIsAnErrorAndNotMistakenForTheServer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	port, err := strconv.Atoi(s.Addr()[strings.LastIndex(s.Addr(), ":")+1:])
	require.NoError(t, err)

	_, err = redistest.StartServer(redistest.WithPort(port))
	require.ErrorContains(t, err, "in use")
	require.Equal(t, "PONG", s.MustDo(t, "PING"))

	s.Kill()
	other := redistest.Start(t, redistest.WithPort(port))
	require.Equal(t, s.Addr(), other.Addr())
}

func TestServersStartedAtOnceDoNotCollide(t *testing.T) {
	t.Parallel()
	var wg sync.WaitGroup
	servers := make([]*redistest.Server, 8)
	for i := range servers {
		wg.Go(func() {
			var err error
			servers[i], err = redistest.StartServer()
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for i, s := range servers {
		defer s.Close()
		s.MustDo(t, "SET", "i", i)
	}
	for i, s := range servers {
		require.Equal(t, strconv.Itoa(i), s.MustDo(t, "GET", "i"))
	}
}

func TestServerNamedByTheEnvironmentIsRun(t *testing.T) {
	script := filepath.Join(t.TempDir(), "my-server")
	text := "#!/bin/sh\nexec redis-server \"$@\" --maxclients 77\n"
	require.NoError(t, os.WriteFile(script, []byte(text), 0o700))
	t.Setenv(redistest.ServerEnv, script)
	s := redistest.Start(t)
	require.Equal(t, []any{"maxclients", "77"}, s.MustDo(t, "CONFIG", "GET", "maxclients"))
}

func TestArgumentsReachTheServer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.WithArgs("--maxmemory", "3mb"), redistest.WithArgs("--hz", "17"))
	require.Equal(t, []any{"maxmemory", "3145728"}, s.MustDo(t, "CONFIG", "GET", "maxmemory"))
	require.Equal(t, []any{"hz", "17"}, s.MustDo(t, "CONFIG", "GET", "hz"))
}

// On a loaded machine a script can take long, and the clients of other tests wait for it.
func TestServerIsNeverBusy(t *testing.T) {
	t.Parallel()
	require.Equal(t, []any{"lua-time-limit", "0"}, redistest.Start(t).MustDo(t, "CONFIG", "GET", "lua-time-limit"))
}

func TestRefusedArgumentIsAnErrorThatQuotesTheServer(t *testing.T) {
	t.Parallel()
	_, err := redistest.StartServer(redistest.WithArgs("--no-such-setting", "1"))
	require.ErrorContains(t, err, "no-such-setting")
}

func TestDoReturnsEveryKindOfReply(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	require.Equal(t, "OK", s.MustDo(t, "SET", "k", []byte("a\r\nb")))
	require.Equal(t, "a\r\nb", s.MustDo(t, "GET", "k"))
	require.Nil(t, s.MustDo(t, "GET", "absent"))
	require.Equal(t, int64(1), s.MustDo(t, "PEXPIRE", "k", 60_000))
	require.Equal(t, []any{int64(1), "x", []any{}, redistest.ReplyError("ERR y")},
		s.MustDo(t, "EVAL", "return {1, 'x', {}, redis.error_reply('ERR y')}", 0))
	_, err := s.Do("LPUSH", "k", 1)
	require.ErrorAs(t, err, new(redistest.ReplyError))
	require.ErrorContains(t, err, "WRONGTYPE")
}

func TestKeysAreSortedAndMatched(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for _, k := range []string{"b:2", "a:1", "b:1"} {
		s.MustDo(t, "SET", k, "")
	}
	require.Equal(t, []string{"b:1", "b:2"}, s.Keys("b:*"))
}

func TestStatisticsCountCommands(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.MustDo(t, "CONFIG", "RESETSTAT")
	before := s.TotalCommands()
	for range 5 {
		s.MustDo(t, "EVAL", incr, 0)
	}
	stats := s.CommandStats()
	require.Equal(t, int64(5), stats["eval"].Calls)
	require.Equal(t, int64(5), stats["incr"].Calls)
	require.Positive(t, stats["eval"].Time)
	// Five scripts and what they call, INFO for each of the two readings after the first.
	require.Equal(t, int64(12), s.TotalCommands()-before)
	require.Positive(t, s.CPU())
}

func TestClientIsReadyToUse(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := s.Client(t, func(o *rueidis.ClientOption) { o.ClientName = "me" })
	name, err := c.Do(t.Context(), c.B().ClientGetname().Build()).ToString()
	require.NoError(t, err)
	require.Equal(t, "me", name)
}

func TestSentByCountsWhatRanMeanwhile(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.MustDo(t, "SET", "before", "it")
	sent := s.SentBy(func() {
		s.MustDo(t, "PING")
		s.MustDo(t, "SET", "k", "v")
		s.MustDo(t, "EVAL", "return redis.call('GET', KEYS[1])", 1, "k")
	})
	require.Equal(t, map[string]int64{"set": 1, "get": 1, "eval": 1}, sent)
}
