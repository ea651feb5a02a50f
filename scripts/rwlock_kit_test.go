// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

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

func rwlockOf(f *fixture) *rwlock {
	return &rwlock{queueFixture: queueFixtureOf(f), readers: strings.TrimSuffix(f.key, "lock") + "readers"}
}

func (r *rwlock) keys() []string { return []string{r.key, r.tickets, r.readers, r.heartbeats} }

func (r *rwlock) enterArgs(hold, mode, queues, number string) []any {
	return append(r.queueFixture.enterArgs(hold, queues, number), mode, r.again(hold))
}

// tries comes to try.
func (r *rwlock) tries(hold, mode string) []any {
	r.Helper()
	return r.mustRun(scripts.RWLockEnter, r.keys(), r.enterArgs(hold, mode, "0", "")...)
}

// joins enters the queue with a heartbeat.
func (r *rwlock) joins(hold, mode string) []any {
	r.Helper()
	return r.mustRun(scripts.RWLockEnter, r.keys(), r.enterArgs(hold, mode, "1", r.next())...)
}

func (r *rwlock) leaveArgs(hold string) []any {
	return []any{hold + label, hold[:22], "PUBLISH", r.grants, keepMS, r.certain(hold)}
}

func (r *rwlock) leaves(hold string) []any {
	r.Helper()
	return r.mustRun(scripts.RWLockLeave, r.keys(), r.leaveArgs(hold)...)
}

func (r *rwlock) polls(session string, holds ...string) []any {
	r.Helper()
	return r.mustRun(scripts.RWLockPoll, r.keys(), r.pollArgs(session, holds...)...)
}

func (r *rwlock) downgrades(hold string) []any {
	r.Helper()
	return r.mustRun(scripts.RWLockDowngrade, r.keys(), r.leaveArgs(hold)...)
}

func (r *rwlock) forceArgs(holds ...string) []any {
	var text strings.Builder
	for _, hold := range holds {
		text.WriteString(hold[:22] + "\n" + hold + label + "\n")
	}
	return []any{"PUBLISH", r.grants, r.notified() + ":", text.String(), keepMS}
}

// forces ends holds, and returns how many.
func (r *rwlock) forces(holds ...string) any {
	r.Helper()
	reply := r.mustRun(scripts.RWLockForce, r.keys(), r.forceArgs(holds...)...)
	require.Len(r, reply, 1)
	return reply[0]
}

// isOpen asks whether it may share, as a reader that has the lock.
func (r *rwlock) isOpen(hold string) bool {
	r.Helper()
	reply := r.mustRun(scripts.RWLockMayShare, r.keys(), hold+label)[0]
	require.Contains(r, []any{int64(0), int64(1)}, reply)
	return reply == int64(1)
}

// drops ends a hold by one key.
func (r *rwlock) drops(hold string) any {
	r.Helper()
	return r.mustRun(scripts.HoldsDrop, []string{r.key}, hold+label)[0]
}

// renews lengthens a hold.
func (r *rwlock) renews(hold string, ms int64) any {
	r.Helper()
	return r.mustRun(scripts.HoldsRenew, []string{r.key}, hold+label, ms)[0]
}

// scores returns the members of a key of holds, by name, with their scores: none where it is no such key.
func (f *fixture) scores(key string) map[string]int64 {
	f.Helper()
	reply, err := f.server.Do("EVAL", `local all = {}
for n, text in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')) do
  all[n] = n % 2 == 0 and string.format('%.0f', text) or text
end
return all`, 1, key)
	if err != nil {
		require.ErrorContains(f, err, "WRONGTYPE")
		return nil
	}
	words, _ := reply.([]any)
	scores := make(map[string]int64, len(words)/2)
	for n := 0; n < len(words); n += 2 {
		score, err := strconv.ParseInt(fmt.Sprint(words[n+1]), 10, 64)
		require.NoError(f, err)
		scores[fmt.Sprint(words[n])] = score
	}
	return scores
}

// until returns the holds and until when they last, without their labels.
func (r *rwlock) until() map[string]int64 {
	r.Helper()
	holds := make(map[string]int64)
	for name, score := range r.scores(r.key) {
		if len(name) > 40 {
			require.Equal(r, label, name[41:])
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
func (m memory) of(attempt string) *sent {
	known := m[attempt]
	if known == nil {
		known = &sent{}
		if m != nil {
			m[attempt] = known
		}
	}
	return known
}

// entered takes the reply to an enter.
func (m memory) entered(attempt string, reply []any) {
	known := m.of(attempt)
	known.enters++
	known.has = reply[0] == int64(1)
}

func (m memory) again(attempt string) string { return strconv.Itoa(min(m.of(attempt).enters, 1)) }

// isCertain reports whether the attempt certainly has no ticket.
func (m memory) isCertain(attempt string) bool {
	known := m.of(attempt)
	return known.enters == 1 && known.has
}

func (m memory) certain(attempt string) string {
	if m.isCertain(attempt) {
		return "1"
	}
	return "0"
}

// requireHave checks that the lock has these holds and no others, in this mode.
func (r *rwlock) requireHave(mode string, holds ...string) {
	r.Helper()
	have := make([]string, 0, len(holds))
	for hold := range r.until() {
		have = append(have, hold)
	}
	require.ElementsMatch(r, holds, have)
	if len(holds) > 0 {
		require.Contains(r, map[string][]int64{reads: {0, 3}, writes: {1}}[mode], r.scores(r.key)["phase"])
	}
}

// floor returns the last token's stamp, 0 where it is not known.
func (r *rwlock) floor() int64 {
	r.Helper()
	if kept, isHeld := r.scores(r.key)["sb1w"]; isHeld {
		return -kept
	}
	if value := r.value(); value != "" {
		require.Equal(r, "sb1-", value[:4])
		return parseStamp(r, value[4:])
	}
	return 0
}

// inQueues returns the holds of the tickets, in order.
func (r *rwlock) inQueues() []any {
	r.Helper()
	holds, _ := r.server.MustDo(r, "EVAL", `redis.call('ZUNIONSTORE', KEYS[3], 2, KEYS[1], KEYS[2])
local all = redis.call('ZRANGE', KEYS[3], 0, -1)
redis.call('DEL', KEYS[3])
return all`, 3, r.tickets, r.readers, r.key+":all").([]any)
	return holds
}

// requireEnds checks that every key that there is has an end, and those of the queue theirs.
func (r *rwlock) requireEnds() {
	r.Helper()
	r.queueFixture.requireEnds()
	at := *r.queueFixture
	at.tickets = r.readers
	at.requireEnds()
}

// manyHold is the n-th of them.
func manyHold(n int) string { return fmt.Sprintf("many%018d%019d", n, n) }
