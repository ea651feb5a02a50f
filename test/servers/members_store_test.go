// SPDX-License-Identifier: Apache-2.0

package servers_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/shards"
)

const (
	storeEnv  = "STORE"  // the URL of the store
	countEnv  = "COUNT"  // how many shards the process wishes, or ids it counts down
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
