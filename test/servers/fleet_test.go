// SPDX-License-Identifier: Apache-2.0

package servers_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/shards"
)

const (
	// fleetSize is how many processes there are, and fleetShards how many shards.
	fleetSize, fleetShards = 20, 60
	// nextShards is how many shards the next version of the program wishes.
	nextShards = 100
	// batch is how many processes a rolling change replaces at a time.
	batch = 5
)

// fleet is processes that write to a store, and who wrote to each shard last.
type fleet struct {
	*testing.T

	server  *redistest.Server
	proxy   *redistest.Proxy // half of the processes reach the server through it
	store   rueidis.Client
	members []*redistest.Process
	started int
	count   int               // how many shards there are
	writer  map[string]string // the process that wrote with the greatest token, by shard
	token   map[string]uint64
	refused map[string]int // how many late writes of a process were refused
	moves   int
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	server := redistest.Start(t)
	f := &fleet{
		T: t, server: server, proxy: redistest.NewProxy(t, server.Addr()), store: server.Client(t, locktest.Steady), count: fleetShards,
		writer: make(map[string]string), token: make(map[string]uint64), refused: make(map[string]int),
	}
	f.proxy.DropPushes(true)
	for range fleetSize {
		f.start(fleetShards, 1)
	}
	return f
}

// startMember starts a process that wishes so many shards.
func (f *fleet) start(count, weight int) {
	url := f.server.URL()
	if f.started++; f.started%2 == 0 {
		url = f.proxy.URL()
	}
	p := redistest.Child(f.T, "writer", urlEnv+"="+url, storeEnv+"="+f.server.URL(),
		fmt.Sprintf("%s=%d", countEnv, count), fmt.Sprintf("%s=%d", weightEnv, weight))
	f.members = append(f.members, p)
}

// next reads what the store says next.
func (f *fleet) next() {
	f.Helper()
	list, err := f.store.Do(f.Context(), f.store.B().Blpop().Key("events").Timeout(limit.Seconds()).Build()).AsStrSlice()
	require.NoError(f, err)
	words := strings.Fields(list[1])
	what, shard, process := words[0], words[1], words[3]
	token, err := strconv.ParseUint(words[2], 10, 64)
	require.NoError(f, err)
	switch what {
	case "owned":
		require.Greater(f, token, f.token[shard], "the token of shard %s", shard)
		if last := f.writer[shard]; last != "" && last != process {
			f.moves++
		}
		f.writer[shard], f.token[shard] = process, token
	case "refused":
		f.refused[process]++
	case "late": // its ownership was not over at the server
		require.Equal(f, f.writer[shard], process, "the process that writes late to shard %s", shard)
	default:
		require.Fail(f, "two processes wrote with one token", "%v", words)
	}
}

func pid(p *redistest.Process) string { return strconv.Itoa(p.PID()) }

// loads returns how many shards each process writes to.
func (f *fleet) loads() map[string]int {
	loads := make(map[string]int)
	for shard, process := range f.writer {
		if index, err := strconv.Atoi(shard); err == nil && index < f.count {
			loads[process]++
		}
	}
	return loads
}

// untilEven waits until all shards are written to, and the loads differ by one at most.
func (f *fleet) untilEven() {
	f.Helper()
	for {
		loads, least, most, sum := f.loads(), f.count, 0, 0
		for _, p := range f.members {
			n := loads[pid(p)]
			least, most, sum = min(least, n), max(most, n), sum+n
		}
		if sum == f.count && most-least <= 1 {
			return
		}
		f.next()
	}
}

// untilNoneWrites waits until other processes write to the shards of these.
func (f *fleet) untilNoneWrites(gone ...string) {
	f.Helper()
	for slices.ContainsFunc(gone, func(process string) bool { return f.loads()[process] > 0 }) {
		f.next()
	}
}

// take takes the member that has lived longest from the list.
func (f *fleet) take() *redistest.Process {
	p := f.members[0]
	f.members = f.members[1:]
	return p
}

func (f *fleet) terminate(p *redistest.Process) {
	f.Helper()
	process, err := os.FindProcess(p.PID())
	require.NoError(f, err)
	require.NoError(f, process.Signal(syscall.SIGTERM))
}

// hurts kills a process, stops one past its lease, ends one in order and breaks the connections of half of the others, all at once.
func (f *fleet) hurts() {
	f.Helper()
	killed, stopped, ended := f.take(), f.take(), f.take()
	gone := []string{pid(killed), pid(stopped), pid(ended)}
	stopped.Freeze()
	killed.Kill()
	f.terminate(ended)
	f.proxy.HalfOpenAll()
	for range 2 {
		f.start(fleetShards, 1)
	}
	f.untilNoneWrites(gone...)
	require.Zero(f, ended.Wait(limit), ended.Stderr())
	stopped.Thaw()
	for f.refused[gone[1]] == 0 { // each of its functions writes once more
		f.next()
	}
	f.members = append(f.members, stopped)
	f.untilEven()
}

// rolls replaces all processes by those of another version, some at a time. The number of shards changes with the last one.
func (f *fleet) rolls() {
	f.Helper()
	for range fleetSize / batch {
		var ended []*redistest.Process
		var gone []string
		for range batch {
			f.start(nextShards, 2)
		}
		for range batch {
			p := f.take()
			ended, gone = append(ended, p), append(gone, pid(p))
			f.terminate(p)
		}
		f.untilNoneWrites(gone...)
		for _, p := range ended {
			require.Zero(f, p.Wait(limit), p.Stderr())
		}
	}
	f.count = nextShards
	f.untilEven()
}

// ends lets all processes leave, and logs what the store has seen.
func (f *fleet) ends() {
	f.Helper()
	for _, p := range f.members {
		f.terminate(p)
	}
	for _, p := range f.members {
		require.Zero(f, p.Wait(limit), p.Stderr())
	}
	gaps, err := f.store.Do(f.Context(), f.store.B().Hvals().Key("gaps").Build()).AsIntSlice()
	require.NoError(f, err)
	slices.Sort(gaps)
	refused := 0
	for _, n := range f.refused {
		refused += n
	}
	f.Logf("%d processes, %d moves, %d late writes refused and none accepted; the longest time without a write: %d ms, half of the shards %d ms",
		f.started, f.moves, refused, gaps[len(gaps)-1]/1000, gaps[len(gaps)/2]/1000)
}

// P1, P3: 20 processes are killed, stopped, ended and cut off, and are replaced by another version of the program. No write comes
// after one of a later owner, and each shard is written to again.
func TestAFleetWritesToEachShardInTurn(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "the leases of processes that were killed and stopped have to expire on the server")
	f := newFleet(t)
	f.untilEven()
	f.hurts()
	f.rolls()
	f.ends()
}

const (
	storeEnv  = "STORE"  // the URL of the store
	countEnv  = "COUNT"  // how many shards the process wishes
	weightEnv = "WEIGHT" // of the member
	// writePause is how long a function waits between two writes.
	writePause = 50 * time.Millisecond
	// drains is how many different drains there are: shards need up to as many pauses until their functions return.
	drains = 16
)

// writeText is the store: a cell for each shard, which takes no smaller token than it has seen. It says in the list "events" which
// process wrote first with a token, and whose write came too late. A cell is the token, the process, and when it was written to last;
// the hash "gaps" has the longest time between two writes.
const writeText = `
local shard, token, process, is_late = unpack(ARGV)
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local known, writer, at = string.match(redis.call('HGET', 'cells', shard) or '', '^(%d+) (%d+) (%d+)$')
local function say(what)
  redis.call('RPUSH', 'events', table.concat({what, shard, token, process}, ' '))
end
if known and tonumber(token) < tonumber(known) then
  say('refused')
  return 0
end
if known ~= token then
  say('owned')
elseif writer ~= process then
  say('twice')
end
if is_late == '1' then
  say('late')
end
local gap = at and now - at or 0
if gap > tonumber(redis.call('HGET', 'gaps', shard) or 0) then
  redis.call('HSET', 'gaps', shard, string.format('%.0f', gap))
end
redis.call('HSET', 'cells', shard, token .. ' ' .. process .. ' ' .. string.format('%.0f', now))
return 1`

var writeScript = rueidis.NewLuaScript(writeText)

// storeOf returns a client of the store.
func storeOf(url string) rueidis.Client {
	options, err := rueidis.ParseURL(url)
	must(err)
	locktest.Steady(&options)
	client, err := rueidis.NewClient(options)
	must(err)
	return client
}

// runWriter is a member of the group "a" whose functions write to the store. SIGTERM makes it leave.
func runWriter(io.Reader, io.Writer) {
	s, err := signalbox.Dial(context.Background(), os.Getenv(urlEnv))
	must(err)
	store := storeOf(os.Getenv(storeEnv))
	count, err := strconv.Atoi(os.Getenv(countEnv))
	must(err)
	weight, err := strconv.Atoi(os.Getenv(weightEnv))
	must(err)
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	group := shards.New(s, "a", shards.Count(count), shards.Weight(weight), shards.RebalanceDelay(0), signalbox.WithRenewedLease(lease))
	err = group.Run(ctx, func(ctx context.Context, s shards.Shard) error {
		writeUntil(ctx, s, func(isLate string) {
			words := []string{s.Name(), strconv.FormatUint(s.Token(), 10), strconv.Itoa(os.Getpid()), isLate}
			must(writeScript.Exec(context.Background(), store, nil, words).Error())
		})
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		must(fmt.Errorf("run: %w", err))
	}
	_ = s.Close(context.Background()) // the connection may be broken
}

// writeUntil writes until the shard is to move, and in the drain of it, too. A function that lost its shard writes once more, as a
// program does that does not check.
func writeUntil(ctx context.Context, s shards.Shard, write func(isLate string)) {
	for ctx.Err() == nil {
		write("0")
		pause(ctx, writePause)
	}
	if errors.Is(s.Err(), signalbox.ErrLost) {
		write("1")
		return
	}
	for range s.Index()%drains + 1 {
		write("0")
		pause(context.WithoutCancel(ctx), writePause)
	}
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
