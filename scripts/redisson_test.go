// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/scripts"
)

// sharedPermits is one semaphore of one test as Redisson has it.
type sharedPermits struct {
	*fixture

	timeouts string
	capacity int
	exact    string
	summed   string
}

func newSharedPermits(f *fixture, capacity int) *sharedPermits {
	name := strings.TrimSuffix(f.key, "lock")
	f.key = name + "permits"
	return &sharedPermits{f, name + "timeouts", capacity, "0", "1"}
}

// permitsHold is a hold of n permits.
func permitsHold(name string, n int) string { return fmt.Sprintf("%-12s%010d", name, n) }

// permitID is the i-th of a hold, counted from 1.
func permitID(name string, i int) string {
	return fmt.Sprintf("%-12s", name) + string([]byte{0, 0, byte(i >> 8), byte(i)})
}

func (p *sharedPermits) keys() []string { return []string{p.key, p.timeouts} }

func (p *sharedPermits) mustRun(script *scripts.Script, args ...any) []any {
	p.Helper()
	reply, err := p.tryKeys(script, p.keys(), args...)
	require.NoError(p, err)
	list, _ := reply.([]any)
	return list
}

// acquiring, releasing and splitting are the arguments of these steps.
func (p *sharedPermits) acquiring(hold string) []any {
	return []any{hold, lease, digits(p.clock), "PUBLISH", p.channel, "0", p.capacity, p.exact, p.summed}
}

func (p *sharedPermits) releasing(hold string) []any { return []any{hold, "PUBLISH", p.channel} }

func (p *sharedPermits) splitting(hold, old string) []any {
	return []any{hold, lease, digits(p.clock), old, "PUBLISH", p.channel, p.capacity, p.exact, p.summed}
}

func (p *sharedPermits) acquires(hold string) []any {
	p.Helper()
	return p.mustRun(scripts.Load("redisson/permit-acquire", 1), p.acquiring(hold)...)
}

func (p *sharedPermits) releases(hold string) []any {
	p.Helper()
	return p.mustRun(scripts.Load("redisson/permit-release", 1), p.releasing(hold)...)
}

func (p *sharedPermits) splits(hold, old string) []any {
	p.Helper()
	return p.mustRun(scripts.Load("redisson/permit-split", 1), p.splitting(hold, old)...)
}

func (p *sharedPermits) resizes(n int) []any {
	p.Helper()
	return p.mustRun(scripts.Load("redisson/permit-resize", 1), n, digits(p.clock), "PUBLISH", p.channel)
}

func (p *sharedPermits) renews(hold string, ms int64) any {
	p.Helper()
	reply, err := p.tryKeys(scripts.Load("redisson/permit-renew", 1), []string{p.timeouts}, hold, ms)
	require.NoError(p, err)
	list, _ := reply.([]any)
	require.Len(p, list, 1)
	return list[0]
}

// taken and few are replies to an acquire.
func (p *sharedPermits) taken() []any           { return []any{int64(1), digits(p.clock)} }
func (p *sharedPermits) passes(d time.Duration) { p.clock += d.Microseconds() }

// free returns the number, and out how many permits are out.
func (p *sharedPermits) free() any {
	p.Helper()
	return p.server.MustDo(p, "GET", p.key)
}

func (p *sharedPermits) out() any {
	p.Helper()
	return p.server.MustDo(p, "ZCARD", p.timeouts)
}

// P1: whatever is done in whatever order, by Java as well, free and held permits add up to the capacity.
// A caller that acquired permits has them until its time is over.
func TestSharedPermitsAreNeitherLostNorMade(t *testing.T) {
	t.Parallel()
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(uint64(seed), 0)) //nolint:gosec // a test
	p := newSharedPermits(newFixture(t), 6)
	held := make(map[string]int64)   // until when
	parts := make(map[string]string) // of which hold one is a part
	total := 6
	serial := 0
	pick := func() string {
		for hold := range held {
			return hold
		}
		return permitsHold("nobody", 1)
	}
	require.Equal(t, []any{int64(1), digits(p.clock)}, p.resizes(total))
	for range redistest.Rounds(600, 3000) {
		switch random.IntN(9) {
		case 8: // a copy comes late: it lengthens what is there, or takes anew what is gone
			hold := pick()
			repeat := p.acquires
			if old, split := parts[hold]; split {
				repeat = func(hold string) []any { return p.splits(hold, old) }
			}
			reply := repeat(hold)
			if held[hold] > p.clock {
				require.Equal(t, p.taken(), reply)
			}
			delete(held, hold)
			if reply[0] == int64(1) {
				held[hold] = p.clock + lease*1000
				require.Equal(t, int64(1), p.renews(hold, 0), "it has all of them")
			}
		case 0, 1:
			serial++
			hold := permitsHold(strconv.Itoa(serial), 1+random.IntN(4))
			if p.acquires(hold)[0] == int64(1) {
				held[hold] = p.clock + lease*1000
			}
		case 2:
			hold := pick()
			reply := p.releases(hold)
			if until, known := held[hold]; known && until > p.clock {
				require.Equal(t, int64(1), reply[0], "it was its own")
			}
			delete(held, hold)
		case 3:
			hold := pick()
			alive := p.renews(hold, lease)
			require.Equal(t, held[hold] > p.clock, alive == int64(1))
			if alive == int64(1) {
				held[hold] = p.clock + lease*1000
			}
		case 4:
			old := pick()
			if n, _ := strconv.Atoi(old[12:]); n > 1 {
				serial++
				hold := permitsHold(strconv.Itoa(serial), n-1)
				parts[hold] = old
				if p.splits(hold, old)[0] == int64(1) {
					held[hold] = p.clock + lease*1000
				} else {
					require.LessOrEqual(t, held[old], p.clock)
				}
				delete(held, old)
			}
		case 5:
			if random.IntN(10) == 0 {
				total = 1 + random.IntN(8)
				p.resizes(total)
			}
		case 6:
			p.passes(time.Duration(random.IntN(lease)) * time.Millisecond)
		case 7: // Java takes out some of what has ended, those of one hold in no order
			ended, _ := p.server.MustDo(t, "ZRANGEBYSCORE", p.timeouts, "0", p.clock/1000).([]any)
			for _, id := range ended {
				if random.IntN(2) == 0 {
					p.server.MustDo(t, "ZREM", p.timeouts, id)
					p.server.MustDo(t, "INCRBY", p.key, 1)
				}
			}
		}
		free, err := strconv.Atoi(p.free().(string))
		require.NoError(t, err)
		out, _ := p.out().(int64)
		require.Equal(t, total, free+int(out))
		live := 0
		for hold, until := range held {
			if until > p.clock {
				n, _ := strconv.Atoi(hold[12:])
				live += n
			}
		}
		require.LessOrEqual(t, live, int(out))
	}
}

func TestASharedReaderHasAKeyInTheSlotOfTheLock(t *testing.T) {
	t.Parallel()
	server := serverOfOwn(t)
	for name, key := range map[string]string{"a": "{a}:", "{a}b": "{a}b:", "a{b": "a{b:"} {
		server.MustDo(t, "EVAL", scripts.Load("redisson/rwlock-acquire", 1).Source, 1, name, gos, 60_000, later, "PUBLISH", "c", "1", "r")
		require.Equal(t, "1", server.MustDo(t, "GET", key+gos+":rwlock_timeout:1"), name)
	}
}
