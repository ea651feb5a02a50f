// SPDX-License-Identifier: Apache-2.0

package rwlock_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

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

// enter records that the caller is inside, and compares it with the users inside whose holds have not
// ended. The caller is a user by its own name, with one hold at a time in that session.
//
// The log counts: writes and reads; intruders, callers without a hold; overlaps, of a writer and any other
// user; fallen, a token that is not greater than those it has to be greater than: a writer's than all
// before, a reader's than the writers'.
const enter = `
local holder, log, inside = KEYS[1], KEYS[2], KEYS[3]
local session, user, mode, stamp = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6)
local function count(what) redis.call('HINCRBY', log, what, 1) end

local alive, isSet = {}, redis.call('TYPE', holder)['ok'] == 'zset'
for _, hold in ipairs(isSet and redis.call('ZRANGE', holder, '(' .. now, '+inf', 'BYSCORE') or {}) do
  alive[string.sub(hold, 1, 22)] = true
end
if not alive[session] then
  count('intruders')
  return -1
end
local there = redis.call('HGETALL', inside)
for n = 1, #there, 2 do
  local other, does = string.sub(there[n], 1, 22), there[n + 1]
  local may = other == session or not alive[other] or mode == 'r' and does == 'r'
  count(may and 'beside' or 'overlaps')
end
local last = redis.call('HGET', log, mode == 'w' and 'any' or 'writer')
if last and last >= stamp then count('fallen') end
for _, which in ipairs(mode == 'w' and {'any', 'writer'} or {'any'}) do
  local greatest = redis.call('HGET', log, which) or ''
  redis.call('HSET', log, which, stamp > greatest and stamp or greatest)
end
redis.call('HSET', inside, session .. user, mode)
count(mode == 'w' and 'writes' or 'reads')
return redis.call('HINCRBY', log, 'notes', 1)`

func (h *holderLog) keys() []string {
	key := locktest.Key(h.name)
	return []string{key, "log:" + key, "inside:" + key}
}

// lockUser is one who uses the lock.
type lockUser struct {
	session *signalbox.Session
	name    string
	mode    string // r or w
}

// enters makes the note of a user that has acquired the lock. It is an error if the user has no hold
// although its lease is still good after the note. What the server cannot do at the moment is repeated.
func (h *holderLog) enters(ctx context.Context, u lockUser, lease signalbox.Lease) (notes int64, err error) {
	for {
		notes, err = h.client.Do(ctx, h.client.B().Eval().Script(enter).Numkeys(3).Key(h.keys()...).
			Arg(id(u.session), u.name, u.mode, wire.StampOf(lease.Token()).Text()).Build()).AsInt64()
		if err == nil || !strings.HasPrefix(err.Error(), "TRYAGAIN") {
			break
		}
	}
	if err == nil && notes < 0 && lease.Err() == nil {
		err = fmt.Errorf("the server has no hold of the %s whose token is %d, but the lease is good", u.mode, lease.Token())
	}
	return notes, err
}

// leaves removes the note.
func (h *holderLog) leaves(ctx context.Context, u lockUser) error {
	return h.client.Do(ctx, h.client.B().Hdel().Key(h.keys()[2]).Field(id(u.session)+u.name).Build()).Error()
}

// turn has the lock once.
func (h *holderLog) turn(ctx context.Context, u lockUser, lock locktest.Lock) (notes int64, err error) {
	lease, err := lock.Lock(ctx)
	if err != nil {
		return 0, err
	}
	within := context.WithoutCancel(ctx) // what was begun is carried through
	notes, err = h.enters(within, u, lease)
	return notes, errors.Join(err, h.leaves(within, u), forgive(lease.Unlock()))
}

// forgive ignores the error of an Unlock without a reply within its second, on a busy machine, and of a
// hold that was lost.
func forgive(err error) error {
	if errors.Is(err, signalbox.ErrUnconfirmed) || errors.Is(err, signalbox.ErrLost) {
		return nil
	}
	return err
}

// tally is what a log has counted.
type tally struct {
	notes, writes, reads, intruders, overlaps, fallen int64
}

func (h *holderLog) tally(tb testing.TB) tally {
	tb.Helper()
	counts, err := h.client.Do(context.Background(), h.client.B().Hgetall().Key(h.keys()[1]).Build()).AsStrMap()
	require.NoError(tb, err)
	of := func(what string) int64 {
		n, _ := strconv.ParseInt(counts[what], 10, 64) // 0 if it was never counted
		return n
	}
	return tally{of("notes"), of("writes"), of("reads"), of("intruders"), of("overlaps"), of("fallen")}
}

// mustBeTrue fails the test if two users overlapped of which one had to exclude the other.
func (h *holderLog) mustBeTrue(tb testing.TB) tally {
	tb.Helper()
	a := h.tally(tb)
	tb.Logf("%s: %+v", h.name, a)
	require.Zero(tb, a.overlaps, "a writer was not alone: %+v", a)
	require.Zero(tb, a.fallen, "a token fell: %+v", a)
	require.Positive(tb, a.writes)
	require.Positive(tb, a.reads)
	return a
}

func (f *fixture) openLog(t *testing.T, name string) *holderLog {
	t.Helper()
	return &holderLog{f.server.Client(t, locktest.Steady), name}
}

// The log finds what it is there for: a user beside a writer, a token that falls, and a user without a
// hold.
func TestTheLogFindsAWriterThatIsNotAlone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const name = "forged"
	notes := f.openLog(t, name)
	first := locktest.Must(t, locktest.Writer().New(f.holder, name).Lock)
	writer, reader := lockUser{f.holder, "", "w"}, lockUser{f.other, "", "r"}
	_, err := notes.enters(t.Context(), writer, first)
	require.NoError(t, err)

	_, err = notes.enters(t.Context(), reader, first)
	require.ErrorContains(t, err, "the server has no hold")
	ends := time.Now().Add(time.Minute).UnixMicro()
	f.server.MustDo(t, "ZADD", locktest.Key(name), ends, id(f.other)+strings.Repeat("f", 19))
	_, err = notes.enters(t.Context(), reader, first)
	require.NoError(t, err)
	a := notes.tally(t)
	require.EqualValues(t, 1, a.intruders)
	require.EqualValues(t, 1, a.overlaps)
	require.EqualValues(t, 1, a.fallen)
	require.NoError(t, first.Unlock())
}
