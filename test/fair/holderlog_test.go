// SPDX-License-Identifier: Apache-2.0

package fair_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// holderLog has the notes of the holders of a lock.
type holderLog struct {
	client rueidis.Client
	name   string // the name of the lock
}

// note records the holder of the lock, and compares it with the previous note: if there was a head of the
// queue then, it has to be the holder now. It returns how many notes followed, or -1 if the caller does
// not hold the lock.
//
// The log counts, beside the notes: followed, the head was granted the lock next; passed, it was not,
// although it is queued and alive; left, it was not, and is gone or dead; fallen, the token was not
// greater; sunk, the new head had queued before the old one; intruders, callers that do not hold the lock.
//
// A machine that stalls for a second or more delays the waiters' heartbeats. Then they are rightly passed
// over, or lose what was granted to them, and may live again when the note is made. So for one life after a
// stall the log counts stalled instead of passed, left and intruders.
const note = `
local holder, queue, heartbeats, log = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local stamp = ARGV[1]
local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6)
local function count(what) redis.call('HINCRBY', log, what, 1) end

local was = redis.call('HMGET', log, 'stamp', 'next', 'ticket', 'noted', 'stall')
if was[4] and now - was[4] > 1000000 then was[5] = now end
redis.call('HSET', log, 'noted', now, 'stall', was[5] or 0)
local stalled = now - (was[5] or 0) < 3000000

local value, ends_ms = redis.call('GET', holder) or '', redis.call('PTTL', holder)
if string.sub(value, 63, 63) == 'q' then
  ends_ms = ends_ms - 15000 -- the mark outlives the hold
end
if string.sub(value, 5, 20) ~= stamp or string.sub(value, 62, 62) ~= 'f' or ends_ms <= 0 then
  count(stalled and 'stalled' or 'intruders')
  return -1
end
local ticket = string.sub(value, 21, 62)
if was[1] and was[1] >= stamp then count('fallen') end
if was[2] == ticket then
  count('followed')
elseif was[2] and stalled then
  count('stalled')
elseif was[2] then
  local life = redis.call('HGET', heartbeats, string.sub(was[2], 1, 22))
  local waits = redis.call('ZSCORE', queue, was[2])
  count(waits and life and string.sub(life, 1, 16) > now and 'passed' or 'left')
end
redis.call('HSET', log, 'stamp', stamp)
local next = redis.call('ZRANGE', queue, 0, 0, 'WITHSCORES')
if next[1] then
  if was[3] and tonumber(was[3]) > tonumber(next[2]) then count('sunk') end
  redis.call('HSET', log, 'next', next[1], 'ticket', next[2])
else
  redis.call('HDEL', log, 'next')
end
redis.call('HINCRBY', log, 'notes', 1)
return tonumber(redis.call('HGET', log, 'followed') or 0)`

func (h *holderLog) key() string { return "log:" + locktest.Key(h.name) }

// note makes the holder's note. It is an error if the caller does not hold the lock although its lease is
// still good after the note. What the server cannot do at the moment is repeated until ctx ends.
func (h *holderLog) note(ctx context.Context, lease signalbox.Lease) (followed int64, err error) {
	keys := locktest.Keys(h.name)
	for {
		followed, err = h.client.Do(ctx, h.client.B().Eval().Script(note).Numkeys(4).
			Key(keys.Holder, keys.QueueKey(), keys.HeartbeatsKey(), h.key()).
			Arg(wire.StampOf(lease.Token()).Text()).Build()).AsInt64()
		if err == nil || !strings.HasPrefix(err.Error(), "TRYAGAIN") {
			break
		}
	}
	if err == nil && followed < 0 && lease.Err() == nil {
		err = fmt.Errorf("another caller has the lock, but the lease of token %d is good", lease.Token())
	}
	return followed, err
}

// tally is what a log has counted.
type tally struct {
	notes, followed, passed, left, stalled, fallenTokens, sunkTokens, intruders int64
}

func (h *holderLog) tally(tb testing.TB) tally {
	tb.Helper()
	counts, err := h.client.Do(context.Background(), h.client.B().Hgetall().Key(h.key()).Build()).AsStrMap()
	require.NoError(tb, err)
	of := func(what string) int64 {
		n, _ := strconv.ParseInt(counts[what], 10, 64) // 0 if it was never counted
		return n
	}
	return tally{
		of("notes"), of("followed"), of("passed"), of("left"), of("stalled"), of("fallen"), of("sunk"), of("intruders"),
	}
}

// inOrder fails the test if a waiter that is alive was passed over, and if fewer than enough notes say anything
// because the queue was not empty.
func (h *holderLog) inOrder(tb testing.TB, enough int64) tally {
	tb.Helper()
	a := h.tally(tb)
	tb.Logf("%s: %+v", h.name, a)
	require.Zero(tb, a.passed, "a waiter that is alive was passed over: %+v", a)
	require.Zero(tb, a.fallenTokens, "a token fell: %+v", a)
	require.Zero(tb, a.sunkTokens, "a ticket came before the head of the queue: %+v", a)
	require.GreaterOrEqual(tb, a.followed, enough, "too few were queued: %+v", a)
	return a
}

// faultless is inOrder for a run without faults: no waiter and no holder was lost in any way.
func (h *holderLog) faultless(tb testing.TB, enough int64) tally {
	tb.Helper()
	a := h.inOrder(tb, enough)
	require.Zero(tb, a.left, "a waiter lost its ticket: %+v", a)
	require.Zero(tb, a.intruders, "a holder lost the lock: %+v", a)
	return a
}
