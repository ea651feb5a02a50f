// SPDX-License-Identifier: Apache-2.0

package suite_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/internal/testing/tally"
)

// store is what a lock protects: a value that its holders read, change and write, on a server of its own that nothing happens to. It
// keeps a line for each write, which has the writer and whose value it read. So an update that another one overwrote unread is seen.
type store struct {
	client rueidis.Client
	key    string
	plain  bool
	writes atomic.Int64
}

// withoutTokens is the value of slowEnv by which the store knows no tokens.
const withoutTokens = "without tokens"

// newStore returns the value of a name in the store at that URL, nil for none.
func newStore(url, name string) *store {
	if url == "" {
		return nil
	}
	const patience = time.Hour // this process may be stopped in the midst of a call, and nothing happens to the server
	c, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{strings.TrimPrefix(url, "redis://")}, DisableCache: true, ForceSingleClient: true,
		Dialer: net.Dialer{Timeout: patience}, ConnWriteTimeout: patience,
	})
	must(err)
	return &store{client: c, key: name, plain: os.Getenv(slowEnv) == withoutTokens}
}

func (s *store) close() {
	if s != nil {
		s.client.Close()
	}
}

// A store refuses a token that is smaller than one that it has seen, in reads as well.
var (
	readValue = rueidis.NewLuaScript(`if ARGV[1] ~= '' then
  if ARGV[1] < (redis.call('GET', KEYS[2]) or '') then return false end
  redis.call('SET', KEYS[2], ARGV[1])
end
return redis.call('GET', KEYS[1]) or '-'`)
	writeValue = rueidis.NewLuaScript(`if ARGV[1] ~= '' and ARGV[1] < (redis.call('GET', KEYS[2]) or '') then
  return redis.call('INCR', KEYS[4])
end
redis.call('SET', KEYS[1], ARGV[3])
redis.call('RPUSH', KEYS[3], ARGV[2] .. ' ' .. ARGV[3])
return 0`)
)

func (s *store) keys() []string {
	return []string{s.key, s.key + ":token", s.key + ":log", s.key + ":refused"}
}

func (s *store) token(token uint64) string {
	if s.plain {
		return ""
	}
	return fmt.Sprintf("%020d", token)
}

// read returns the writer of the value, "" if the token is refused.
func (s *store) read(token uint64) string {
	if s == nil {
		return ""
	}
	writer, err := readValue.Exec(context.Background(), s.client, s.keys(), []string{s.token(token)}).ToString()
	if !rueidis.IsRedisNil(err) {
		must(err)
	}
	return writer
}

// write writes a value that was made of the one read.
func (s *store) write(read string, token uint64) {
	if s == nil || read == "" {
		return
	}
	writer := fmt.Sprint(os.Getpid(), "/", s.writes.Add(1))
	must(writeValue.Exec(context.Background(), s.client, s.keys(), []string{s.token(token), read, writer}).Error())
}

// lostUpdates returns how many writes there were, and how many of them overwrote a value that the writer had not read.
func lostUpdates(tb testing.TB, server *redistest.Server, name string) (writes, lost int) {
	tb.Helper()
	lines, isList := server.MustDo(tb, "LRANGE", name+":log", 0, -1).([]any)
	require.True(tb, isList)
	last := "-"
	for _, line := range lines {
		read, writer, _ := strings.Cut(fmt.Sprint(line), " ")
		if read != last {
			lost++
		}
		last = writer
	}
	return len(lines), lost
}

// P3: holders that are stopped for longer than their leases overwrite what others wrote, if the store compares no tokens: the control
// that shows that updates can be lost here, and that it is noticed. With tokens none is lost.
func TestAStoreNeedsTokens(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "processes are stopped for longer than their leases")
	for _, how := range []string{withoutTokens, "with tokens"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			kinds := Kinds()
			c := newStorm(t, single, kinds[0], slowEnv+"="+how)
			defer c.end()
			writes, lost, n := 0, 0, 0
			// A holder may have written before it is stopped.
			for pauses := 0; pauses < 3 || pauses < 20 && (writes < 30 || lost+n == 0); pauses++ {
				c.stopAHolder()
				writes, lost = lostUpdates(t, c.storm.store, c.prefix+crowdName)
				refused, _ := c.storm.store.Do("GET", c.prefix+crowdName+":refused")
				n, _ = strconv.Atoi(fmt.Sprint(refused))
			}
			c.history()
			writes, lost = lostUpdates(t, c.storm.store, c.prefix+crowdName)
			tally.Add("lost updates", how, lost)
			tally.Add("updates", how, writes)
			tally.Add("refused updates", how, n)
			require.Equal(t, how != withoutTokens, n > 0, "the store refused %d", n)
			require.Equal(t, how == withoutTokens, lost > 0, "%d lost of %d", lost, writes)
		})
	}
}

// stopAHolder stops a process that holds the lock for longer than its lease.
func (c *crowdOf) stopAHolder() {
	var holder *actor
	redistest.Await(c, "a holder", func() bool {
		holder = c.holder()
		return holder != nil
	})
	holder.Freeze()
	for ends := time.Now().Add(actorLife * 3 / 2); time.Now().Before(ends); {
		c.continues("a holder is stopped", holder)
	}
	holder.Thaw()
	c.continues("a holder is stopped, and continues", nil)
}

// What a storm makes of the words of its processes finds a lock that does not exclude and whose tokens fall, a session that is not
// closed, and a key that stays.
func TestAStormFindsABadLock(t *testing.T) {
	t.Parallel()
	c := newStorm(t, single, Kinds()[0], badEnv+"=yes")
	defer c.end()
	require.Empty(t, c.immortal())
	for range 64 { // on a busy machine holders seldom meet, and no check is of use until two did
		c.continues("takes", nil)
	}
	said := c.history()
	overlaps, falling := c.violations(holdsOf(c.kind, said))
	require.Positive(t, overlaps)
	require.Positive(t, falling)
	require.Positive(t, c.goroutines())
	parts := c.parts(said)
	require.Len(t, parts, 1)
	require.Equal(t, porcupine.Illegal, judge(c.kind, parts[0]))
	c.servers[0].MustDo(t, "SET", "a key of any name", "")
	require.Len(t, c.immortal(), 1)
}

// What is cut out of a history is what falls into a loss, and no more.
func TestAHistoryIsCutAtLosses(t *testing.T) {
	t.Parallel()
	c := &crowdOf{kind: Kinds()[0], storm: &storm{losses: []interval{{100, 200}}}}
	hold := func(who int, from int64) []action {
		return []action{{took, who, false, uint64(from), from, from + 1}, {gave, who, false, uint64(from), from + 5, from + 6}}
	}
	said := slices.Concat(hold(0, 10), hold(1, 20), hold(0, 98), hold(1, 150), hold(0, 210), hold(1, 220))
	parts := c.parts(said)
	require.Len(t, parts, 2)
	require.Equal(t, slices.Concat(hold(0, 10), hold(1, 20)), parts[0][:4])
	require.Len(t, parts[0], 6) // and the hold that a loss has met
	require.Equal(t, slices.Concat(hold(0, 210), hold(1, 220)), parts[1])
}

// The counts of a storm find two holders, a token that falls and an update that is lost, and no mistake if there is none.
func TestAStormFindsPlantedMistakes(t *testing.T) {
	t.Parallel()
	c := &crowdOf{kind: Kinds()[0], storm: &storm{losses: []interval{{1000, 2000}}}}
	at := func(who int, token uint64, from, good int64) *heldBy {
		return &heldBy{who: who, token: token, from: from, took: from + 1, good: good}
	}
	for name, planted := range map[string]struct {
		holds             []*heldBy
		overlaps, falling int
	}{
		"a hold within another":             {[]*heldBy{at(0, 10, 10, 20), at(1, 11, 15, 16), at(0, 12, 30, 40)}, 1, 0},
		"turns":                             {[]*heldBy{at(0, 10, 10, 20), at(1, 11, 19, 30), at(0, 12, 30, 40)}, 0, 0},
		"two holders":                       {[]*heldBy{at(0, 10, 10, 20), at(1, 11, 12, 30)}, 1, 0},
		"two, one of which was over":        {[]*heldBy{at(0, 10, 10, 20), at(1, 11, 12, 12)}, 0, 0},
		"a token falls":                     {[]*heldBy{at(0, 11, 10, 20), at(1, 10, 20, 30)}, 0, 1},
		"a token twice":                     {[]*heldBy{at(0, 11, 10, 20), at(1, 11, 20, 30)}, 0, 1},
		"both, while data is lost":          {[]*heldBy{at(0, 11, 1010, 1020), at(1, 10, 1012, 1030)}, 0, 0},
		"a token that fell in between":      {[]*heldBy{at(0, 11, 10, 20), at(1, 10, 2020, 2030)}, 0, 1},
		"two holders, one from the time of": {[]*heldBy{at(0, 11, 1990, 2050), at(1, 12, 2010, 2030)}, 0, 0},
	} {
		overlaps, falling := c.violations(planted.holds)
		require.Equal(t, [2]int{planted.overlaps, planted.falling}, [2]int{overlaps, falling}, name)
	}
	server := redistest.Start(t)
	for _, line := range []string{"- a", "a b", "a c", "c d"} {
		server.MustDo(t, "RPUSH", "name:log", line)
	}
	writes, lost := lostUpdates(t, server, "name")
	require.Equal(t, [2]int{4, 1}, [2]int{writes, lost})
}
