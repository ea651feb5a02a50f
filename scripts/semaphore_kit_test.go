// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-go/signalbox/scripts"
)

// permits is one semaphore of one test. Its first key is that of the holds.
type permits struct {
	*queueFixture

	capacity int // what callers pass
	memory
}

func newPermits(tb testing.TB, capacity int) *permits {
	tb.Helper()
	return permitsOf(newFixture(tb), capacity)
}

func permitsOf(f *fixture, capacity int) *permits {
	name := strings.TrimSuffix(f.key, "lock")
	f.key = name + "permits"
	return &permits{
		queueFixture: &queueFixture{fixture: f, tickets: name + "permits:queue", heartbeats: name + "permits:heartbeats", grants: name + "grants:"}, capacity: capacity,
	}
}

// permitRequest is the ticket of a hold that wants so many permits.
func permitRequest(hold string, n int) string { return hold + fmt.Sprintf("%010d", n) }

// holdFor is the hold of a ticket that was granted permits.
func holdFor(request string) string { return request + label }

func (p *permits) enterArgs(request, queues, number string) []any {
	return []any{
		request, lease * 1000, digits(p.clock), queues, life, number, label, "PUBLISH", p.grants, keepMS, p.capacity, "0", p.again(request),
	}
}

func (p *permits) tries(request string) []any {
	p.Helper()
	return p.mustRun(scripts.SemaphoreEnter, p.keys(), p.enterArgs(request, "0", "")...)
}

func (p *permits) joins(request string) []any {
	p.Helper()
	return p.mustRun(scripts.SemaphoreEnter, p.keys(), p.enterArgs(request, "1", p.next())...)
}

func (p *permits) leaveArgs(request string) []any {
	return []any{holdFor(request), request[:22], "PUBLISH", p.grants, keepMS, p.certain(request)}
}

func (p *permits) leaves(request string) []any {
	p.Helper()
	return p.mustRun(scripts.SemaphoreLeave, p.keys(), p.leaveArgs(request)...)
}

func (p *permits) polls(session string, requests ...string) []any {
	p.Helper()
	return p.mustRun(scripts.SemaphorePoll, p.keys(), p.pollArgs(session, requests...)...)
}

func (p *permits) resizeArgs(n int) []any {
	return []any{n, digits(p.clock), "PUBLISH", p.grants, keepMS}
}

func (p *permits) resizes(n int) []any {
	p.Helper()
	return p.mustRun(scripts.SemaphoreResize, p.keys(), p.resizeArgs(n)...)
}

func (p *permits) splitArgs(kept, request string) []any {
	return append([]any{kept, lease * 1000, digits(p.clock)}, p.leaveArgs(request)...)
}

func (p *permits) splits(kept, request string) []any {
	p.Helper()
	return p.mustRun(scripts.SemaphoreSplit, p.keys(), p.splitArgs(kept, request)...)
}

func (p *permits) yieldArgs(request string, alike ...string) []any {
	var attempts strings.Builder
	for _, other := range alike {
		attempts.WriteString(other[22:41])
	}
	return []any{holdFor(request), lease * 1000, attempts.String(), request[:22], "PUBLISH", p.grants, keepMS}
}

func (p *permits) yields(request string, alike ...string) []any {
	p.Helper()
	return p.mustRun(scripts.SemaphoreYield, p.keys(), p.yieldArgs(request, alike...)...)
}

func (p *permits) renews(request string, ttl time.Duration) any {
	p.Helper()
	return p.mustRun(scripts.HoldsRenew, []string{p.key}, holdFor(request), ttl.Milliseconds())[0]
}

func (p *permits) drops(request string) any {
	p.Helper()
	return p.mustRun(scripts.HoldsDrop, []string{p.key}, holdFor(request))[0]
}

func (p *permits) available() []any {
	p.Helper()
	return p.mustRun(scripts.SemaphoreAvailable, []string{p.key})
}

// score returns a score of the holder key, -1 if it has no such member.
func (p *permits) score(member string) int64 {
	p.Helper()
	n, _ := p.server.MustDo(p, "EVAL", "return tonumber(redis.call('ZSCORE', KEYS[1], ARGV[1]) or -1)", 1, p.key, member).(int64)
	return n
}

// out returns the names of all that have permits and when they end, those that have ended and were not taken out
// included.
func (p *permits) out() []any {
	p.Helper()
	all, _ := p.server.MustDo(p, "EVAL", `
local all = redis.call('ZRANGE', KEYS[1], 1000000000000000, '+inf', 'BYSCORE', 'WITHSCORES')
for n = 2, #all, 2 do all[n] = string.format('%.0f', all[n]) end
return all`, 1, p.key).([]any)
	return all
}
