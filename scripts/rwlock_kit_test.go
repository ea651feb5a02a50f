// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/scripts"
)

// The modes in which a read-write lock is entered.
const reads, writes = "r", "w"

// rwlock is one read-write lock of one test. Its tickets are those of the writers.
type rwlock struct {
	*queueFixture

	readers string
	memory
}

func newRWLock(tb testing.TB) *rwlock {
	tb.Helper()
	return rwlockOf(newFixture(tb))
}

// newRWLockAt is newRWLock on a server of its own, which the test may change.
func newRWLockAt(tb testing.TB, options ...redistest.Option) *rwlock {
	tb.Helper()
	return rwlockOf(newFixtureAt(tb, options...))
}

func rwlockOf(p *fixture) *rwlock {
	return &rwlock{queueFixture: queueFixtureOf(p), readers: strings.TrimSuffix(p.key, "lock") + "readers"}
}

func (p *rwlock) keys() []string { return []string{p.key, p.tickets, p.readers, p.heartbeats} }

func (p *rwlock) enterArgs(hold, mode, queues, number string) []any {
	return append(p.queueFixture.enterArgs(hold, queues, number), mode, p.again(hold))
}

// tries comes to try.
func (p *rwlock) tries(hold, mode string) []any {
	p.Helper()
	return p.ask(scripts.RWLockEnter, p.keys(), p.enterArgs(hold, mode, "0", "")...)
}

// joins enters the queue with a heartbeat.
func (p *rwlock) joins(hold, mode string) []any {
	p.Helper()
	return p.ask(scripts.RWLockEnter, p.keys(), p.enterArgs(hold, mode, "1", p.next())...)
}

// has gives the lock to hold, which must be able to get it, for the time of a lease.
func (p *rwlock) has(hold, mode string) {
	p.Helper()
	require.Equal(p, int64(1), p.tries(hold, mode)[0])
}

// queues gives hold a ticket.
func (p *rwlock) queues(hold, mode string) {
	p.Helper()
	require.Equal(p, int64(0), p.joins(hold, mode)[0])
}

func (p *rwlock) leaveArgs(hold string) []any {
	return []any{hold + label, hold[:22], "PUBLISH", p.grants, keepMS, p.certain(hold)}
}

func (p *rwlock) leaves(hold string) []any {
	p.Helper()
	return p.ask(scripts.RWLockLeave, p.keys(), p.leaveArgs(hold)...)
}

func (p *rwlock) polls(session string, holds ...string) []any {
	p.Helper()
	return p.ask(scripts.RWLockPoll, p.keys(), p.pollArgs(session, holds...)...)
}

func (p *rwlock) downgrades(hold string) []any {
	p.Helper()
	return p.ask(scripts.RWLockDowngrade, p.keys(), p.leaveArgs(hold)...)
}

func (p *rwlock) forceArgs(holds ...string) []any {
	var text strings.Builder
	for _, hold := range holds {
		text.WriteString(hold[:22] + "\n" + hold + label + "\n")
	}
	return []any{"PUBLISH", p.grants, p.notified() + ":", text.String(), keepMS}
}

// forces ends holds, and returns how many.
func (p *rwlock) forces(holds ...string) any {
	p.Helper()
	reply := p.ask(scripts.RWLockForce, p.keys(), p.forceArgs(holds...)...)
	require.Len(p, reply, 1)
	return reply[0]
}

// isOpen asks whether it may share, as a reader that has the lock.
func (p *rwlock) isOpen(hold string) bool {
	p.Helper()
	reply := p.ask(scripts.RWLockMayShare, p.keys(), hold+label)[0]
	require.Contains(p, []any{int64(0), int64(1)}, reply)
	return reply == int64(1)
}

// drops ends a hold by one key.
func (p *rwlock) drops(hold string) any {
	p.Helper()
	return p.ask(scripts.HoldsDrop, []string{p.key}, hold+label)[0]
}

// renews lengthens a hold.
func (p *rwlock) renews(hold string, ms int64) any {
	p.Helper()
	return p.ask(scripts.HoldsRenew, []string{p.key}, hold+label, ms)[0]
}

// scores returns the members of a key of holds, by name, with their scores: none where it is no such key.
func (p *fixture) scores(key string) map[string]int64 {
	p.Helper()
	reply, err := p.server.Do("EVAL", `local all = {}
for n, text in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')) do
  all[n] = n % 2 == 0 and string.format('%.0f', text) or text
end
return all`, 1, key)
	if err != nil {
		require.ErrorContains(p, err, "WRONGTYPE")
		return nil
	}
	words, _ := reply.([]any)
	scores := make(map[string]int64, len(words)/2)
	for n := 0; n < len(words); n += 2 {
		score, err := strconv.ParseInt(fmt.Sprint(words[n+1]), 10, 64)
		require.NoError(p, err)
		scores[fmt.Sprint(words[n])] = score
	}
	return scores
}

// until returns the holds and until when they last, without their labels.
func (p *rwlock) until() map[string]int64 {
	p.Helper()
	holds := make(map[string]int64)
	for name, score := range p.scores(p.key) {
		if len(name) > 40 {
			require.Equal(p, label, name[41:])
			holds[name[:41]] = score
		}
	}
	return holds
}

// memory is what callers know of their attempts: how many enters of each were sent, and the reply to the first one. Only
// a game fills it.
type memory map[string]*sent

type sent struct {
	enters int
	has    bool
}

// of returns what is known of an attempt.
func (c memory) of(attempt string) *sent {
	known := c[attempt]
	if known == nil {
		known = &sent{}
		if c != nil {
			c[attempt] = known
		}
	}
	return known
}

// entered takes the reply to an enter.
func (c memory) entered(attempt string, reply []any) {
	known := c.of(attempt)
	known.enters++
	known.has = reply[0] == int64(1)
}

func (c memory) again(attempt string) string { return strconv.Itoa(min(c.of(attempt).enters, 1)) }

// isCertain reports whether the attempt certainly has no ticket.
func (c memory) isCertain(attempt string) bool {
	known := c.of(attempt)
	return known.enters == 1 && known.has
}

func (c memory) certain(attempt string) string {
	if c.isCertain(attempt) {
		return "1"
	}
	return "0"
}

// requireHave checks that the lock has these holds and no others, in this mode.
func (p *rwlock) requireHave(mode string, holds ...string) {
	p.Helper()
	have := make([]string, 0, len(holds))
	for hold := range p.until() {
		have = append(have, hold)
	}
	require.ElementsMatch(p, holds, have)
	if len(holds) > 0 {
		require.Contains(p, map[string][]int64{reads: {0, 3}, writes: {1}}[mode], p.scores(p.key)["phase"])
	}
}

// floor returns the last token's stamp, 0 where it is not known.
func (p *rwlock) floor() int64 {
	p.Helper()
	if kept, isHeld := p.scores(p.key)["sb1w"]; isHeld {
		return -kept
	}
	if value := p.value(); value != "" {
		require.Equal(p, "sb1-", value[:4])
		return parseStamp(p, value[4:])
	}
	return 0
}

// inQueues returns the holds of the tickets, in order.
func (p *rwlock) inQueues() []any {
	p.Helper()
	holds, _ := p.server.MustDo(p, "EVAL", `redis.call('ZUNIONSTORE', KEYS[3], 2, KEYS[1], KEYS[2])
local all = redis.call('ZRANGE', KEYS[3], 0, -1)
redis.call('DEL', KEYS[3])
return all`, 3, p.tickets, p.readers, p.key+":all").([]any)
	return holds
}

// unchanged returns a function that checks that nothing was written to any of the keys.
func (p *rwlock) unchanged() func() {
	p.Helper()
	return p.unchangedKeys(p.keys)
}

// requireEnds checks that every key that there is has an end, and those of the queue theirs.
func (p *rwlock) requireEnds() {
	p.Helper()
	p.queueFixture.requireEnds()
	at := *p.queueFixture
	at.tickets = p.readers
	at.requireEnds()
}

// dead puts n tickets of sessions that died in one of the lines.
func (p *rwlock) dead(n int, mode string, ended int64) {
	p.Helper()
	at := *p.queueFixture
	if mode == reads {
		at.tickets = p.readers
	}
	at.dead(n, ended)
}

// many gives n readers the lock, which readers have, or a ticket, until noon and a minute.
func (p *rwlock) many(n int, key string) {
	p.Helper()
	score := noon + 60*second
	if key == p.readers {
		score = noon - 60*second
	}
	p.server.MustDo(p, "EVAL", `for i = 1, ARGV[1] do
  local session = string.format('many%018d', i)
  local hold = session .. string.format('%019d', i)
  redis.call('HSET', KEYS[2], session, ARGV[3] .. '000000000001random-1-' .. ARGV[4])
  redis.call('ZADD', KEYS[1], ARGV[2] + i, KEYS[1] == KEYS[3] and hold .. ARGV[4] or hold)
end
redis.call('PEXPIRE', KEYS[1], 600000)
redis.call('PEXPIRE', KEYS[2], 600000)`, 3, key, p.heartbeats, p.key, n, score, digits(noon+longestLife), label)
}

// manyHold is the n-th of them.
func manyHold(n int) string { return fmt.Sprintf("many%018d%019d", n, n) }
