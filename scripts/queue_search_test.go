// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/scripts"
)

// searchPart returns a script of the part queue/search alone: it removes the first count tickets that it finds
// from the queue, and returns more and them. A search that has found nothing more finds nothing afterwards.
func searchPart(tb testing.TB) *scripts.Script {
	tb.Helper()
	return &scripts.Script{Source: scripts.Compose(`local queue, heartbeats, count = KEYS[1], KEYS[2], ARGV[1]
-- include queue/search
local find, found = search(queue, 'from'), {}
for _ = 1, tonumber(count) do
  local ticket, life = find()
  if not ticket then
    assert(not find() and not find(), 'found more')
    break
  end
  assert(life == redis.call('HGET', heartbeats, string.sub(ticket, 1, 22)), 'says of it what is said of another')
  assert(redis.call('ZREM', queue, ticket) == 1, 'found what is not there')
  found[#found + 1] = ticket
end
return {more, found}
`)}
}

// finds removes the first count tickets of live sessions from the queue, and returns more and them.
func (q *queueFixture) finds(search *scripts.Script, count int) (more any, found []any) {
	q.Helper()
	reply := q.mustRun(search, q.keys()[1:], count)
	found, _ = reply[1].([]any)
	return reply[0], found
}

// crowd is a queue of random sessions, whose searches are held against what the keys say.
type crowd struct {
	*queued
	*rand.Rand

	search  *scripts.Script
	arrived int
}

// member is the session of a number.
func member(n int) string { return fmt.Sprintf("member%016d", n) }

// step lets time pass, and sessions come, come back and leave.
func (c *crowd) step() {
	c.Helper()
	c.clock += []int64{1, 1, second, second, 2 * second, 2 * second, life, keepsPosition, 70 * second, -second, -2 * second}[c.IntN(11)]
	for range c.IntN(40) { // new sessions, some with several tickets
		c.arrived++
		c.joins(member(c.arrived-c.IntN(2)) + fmt.Sprintf("%019d", c.arrived))
	}
	inQueue := c.inQueue()
	for range c.IntN(3) * c.IntN(3) * len(inQueue) / (len(inQueue) + 1) { // sessions that return, or are still there
		c.heartbeat(owner(inQueue[c.IntN(len(inQueue))]), life, c.next())
	}
	for _, hold := range inQueue {
		if text, _ := hold.(string); c.IntN(30) == 0 {
			c.leaves(text[:41])
		}
	}
}

// owner returns the session of a hold.
func owner(hold any) string {
	text, _ := hold.(string)
	return text[:22]
}

// states returns the queued tickets of live sessions, and those of dead ones that keep their positions.
func (c *crowd) states() (alive, kept []any) {
	c.Helper()
	fields, _ := c.server.MustDo(c, "HGETALL", c.heartbeats).([]any)
	heartbeats := make(map[any]string)
	for i := 0; i < len(fields); i += 2 {
		heartbeats[fields[i]], _ = fields[i+1].(string)
	}
	for _, hold := range c.inQueue() {
		said := heartbeats[owner(hold)]
		if said == "" {
			continue
		}
		switch until := parseStamp(c, said[:16]); {
		case until > c.clock:
			alive = append(alive, hold)
		case until+keepsPosition > c.clock:
			kept = append(kept, hold)
		}
	}
	return alive, kept
}

// Order, P6: a search finds the tickets of live sessions in the order of the queue, and removes no ticket that
// keeps its position. It does so whatever the searches before it passed over, and wherever they ended.
func TestASearchFindsLiveSessionsWhateverItRemembers(t *testing.T) {
	t.Parallel()
	const steps = 50
	search := searchPart(t)
	for seed := range uint64(redistest.Rounds(2, 8)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			c := &crowd{queued: newLock(t), Rand: rand.New(rand.NewPCG(seed, 2)), search: search}
			c.set(lockSays(holdOf("z")+turnMode, noon, "q"), 24*time.Hour)
			remembered := 0
			for range steps {
				c.step()
				alive, kept := c.states()
				if c.replied("from") != "" {
					remembered++
				}
				count := c.IntN(len(alive) + 2)
				more, found := c.finds(c.search, count)
				require.Equal(t, int64(0), more)
				want := alive[:min(count, len(alive))]
				require.Equal(t, append([]any{}, want...), found)
				left := c.inQueue()
				for _, hold := range slices.Concat(alive[len(want):], kept) {
					require.Contains(t, left, hold, "it keeps its place")
				}
			}
			require.Greater(t, remembered, 3, "few searches had anything to remember")
		})
	}
}
