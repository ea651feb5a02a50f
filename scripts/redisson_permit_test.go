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
func (p *sharedPermits) few(left int64) []any   { return []any{int64(0), left, digits(p.clock)} }
func (p *sharedPermits) had(all int64) []any    { return []any{all, digits(p.clock)} }
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

// P1: all or none, each with an id of its own, and an end.
func TestSharedPermitsAreTakenAllOrNone(t *testing.T) {
	t.Parallel()
	p := newSharedPermits(newFixture(t), 5)
	listener := p.listen()
	require.Equal(t, p.taken(), p.acquires(permitsHold("a", 3)))
	require.Equal(t, "2", p.free())
	ends := strconv.FormatInt(noon/1000+lease, 10)
	for i := range 3 {
		require.Equal(t, ends, p.server.MustDo(t, "ZSCORE", p.timeouts, permitID("a", i+1)))
	}
	require.Equal(t, p.few(lease), p.acquires(permitsHold("b", 3)))
	require.Equal(t, "2", p.free())
	require.Equal(t, p.had(1), p.releases(permitsHold("a", 3)))
	require.Equal(t, "5", p.free())
	require.Equal(t, int64(0), p.out())
	require.Equal(t, []string{"2", "5"}, listener.received(), "how many are free: at the beginning, and then")
	require.Equal(t, []any{int64(-4), int64(5)}, p.acquires(permitsHold("b", 6)))
	p.exact, p.capacity = "1", 6
	require.Equal(t, []any{int64(-5), int64(5)}, p.acquires(permitsHold("b", 1)))
	p.exact, p.summed = "0", "0"
	require.Equal(t, p.few(-1), p.acquires(permitsHold("b", 6)), "nobody knows how many there are")
	require.Equal(t, []any{int64(-1), digits(noon)}, p.mustRun(scripts.Load("redisson/permit-acquire", 1),
		permitsHold("b", 1), lease, digits(noon-1), "PUBLISH", p.channel, "0", 5, "0", "1"), "P4")
	require.Equal(t, "5", p.free())
}

// P5: sent again each step does no more than once.
func TestStepsOfSharedPermitsAreRepeatable(t *testing.T) {
	t.Parallel()
	p := newSharedPermits(newFixture(t), 3)
	a, b, c := permitsHold("a", 3), permitsHold("b", 2), permitsHold("c", 1)
	for range 2 {
		require.Equal(t, p.taken(), p.acquires(a))
		require.Equal(t, "0", p.free())
	}
	for range 2 {
		require.Equal(t, p.taken(), p.splits(b, a))
		require.Equal(t, []any{"1", int64(2)}, []any{p.free(), p.out()})
	}
	require.Equal(t, p.few(-1), p.splits(c, a), "what is gone has no parts")
	require.Equal(t, p.had(0), p.releases(a))
	require.Equal(t, p.had(1), p.releases(b))
	require.Equal(t, p.had(0), p.releases(b))
	require.Equal(t, []any{"3", int64(0)}, []any{p.free(), p.out()})

	require.Equal(t, p.taken(), p.acquires(a))
	p.server.MustDo(t, "ZREM", p.timeouts, permitID("a", 2))
	p.server.MustDo(t, "INCRBY", p.key, "1")
	require.Equal(t, p.few(0), p.acquires(a), "somebody took a part of it")
	require.Equal(t, []any{"3", int64(0)}, []any{p.free(), p.out()})
	require.Equal(t, p.taken(), p.acquires(a))
}

// P1: permits that have ended become free once, whichever call removes them, and a late release adds nothing.
func TestSharedPermitsThatHaveEndedComeBackOnce(t *testing.T) {
	t.Parallel()
	p := newSharedPermits(newFixture(t), 3)
	a, b := permitsHold("a", 3), permitsHold("b", 1)
	require.Equal(t, p.taken(), p.acquires(a))
	p.passes(lease*time.Millisecond - time.Microsecond)
	require.Equal(t, p.few(1), p.acquires(b))
	require.Equal(t, int64(1), p.renews(a, 0))
	p.passes(time.Microsecond)
	require.Equal(t, int64(0), p.renews(a, lease), "what has ended is not lengthened")
	require.Equal(t, []any{int64(1), int64(3), int64(0)}, p.mustRun(scripts.Load("redisson/permit-available", 1)))
	listener := p.listen()
	require.Equal(t, p.taken(), p.acquires(b))
	require.Equal(t, []string{"2"}, listener.received(), "those that it does not take itself")
	require.Equal(t, []any{"2", int64(1)}, []any{p.free(), p.out()})
	require.Equal(t, p.had(0), p.releases(a))
	require.Equal(t, []any{"2", int64(1)}, []any{p.free(), p.out()})
	require.Equal(t, int64(0), p.renews(a, lease), "and is not made again")
	require.Equal(t, int64(1), p.out())

	p.passes(lease * time.Millisecond)
	require.Equal(t, p.had(1), p.releases(b), "nobody has taken it out yet")
	require.Equal(t, []any{"3", int64(0)}, []any{p.free(), p.out()})
}

// P2: renewing raises the ends of a hold's permits, and shortens none; a hold that is not whole is lost.
func TestSharedPermitsAreLengthened(t *testing.T) {
	t.Parallel()
	p := newSharedPermits(newFixture(t), 3)
	a := permitsHold("a", 2)
	require.Equal(t, p.taken(), p.acquires(a))
	ends := func() any { return p.server.MustDo(t, "ZMSCORE", p.timeouts, permitID("a", 1), permitID("a", 2)) }
	both := func(ms int64) []any {
		text := strconv.FormatInt(noon/1000+ms, 10)
		return []any{text, text}
	}
	p.passes(time.Millisecond)
	require.Equal(t, int64(1), p.renews(a, 0))
	require.Equal(t, both(lease), ends())
	require.Equal(t, int64(1), p.renews(a, lease-100))
	require.Equal(t, both(lease), ends())
	require.Equal(t, int64(1), p.renews(a, lease))
	require.Equal(t, both(lease+1), ends())
	p.server.MustDo(t, "ZREM", p.timeouts, permitID("a", 2))
	p.server.MustDo(t, "INCRBY", p.key, 1)
	require.Equal(t, int64(0), p.renews(a, lease))
	require.Equal(t, int64(1), p.out())
	require.Equal(t, p.had(0), p.releases(a), "it had not all, and gives back what it has")
	require.Equal(t, []any{"3", int64(0)}, []any{p.free(), p.out()})
}

// P1: fewer permits than are out are less than none free, as Java has it.
func TestSharedPermitsAreMadeFewer(t *testing.T) {
	t.Parallel()
	p := newSharedPermits(newFixture(t), 5)
	listener := p.listen()
	require.Equal(t, p.taken(), p.acquires(permitsHold("a", 3)))
	done := []any{int64(1), digits(noon)}
	require.Equal(t, done, p.resizes(1))
	require.Equal(t, "-2", p.free())
	require.Equal(t, []any{int64(1), int64(1), int64(3)}, p.mustRun(scripts.Load("redisson/permit-available", 1)))
	require.Equal(t, done, p.resizes(1))
	require.Equal(t, done, p.resizes(4))
	require.Equal(t, "1", p.free())
	require.Equal(t, []any{int64(-1), digits(noon)}, p.mustRun(scripts.Load("redisson/permit-resize", 1), 9, digits(noon-1), "PUBLISH", p.channel))
	p.server.MustDo(t, "DEL", p.key)
	require.Equal(t, []any{int64(1), int64(-1), int64(3)}, p.mustRun(scripts.Load("redisson/permit-available", 1)), "nobody says how many")
	require.Equal(t, p.had(1), p.releases(permitsHold("a", 3)))
	require.Nil(t, p.free(), "what was lost is not made up by a release")
	require.Equal(t, done, p.resizes(2))
	require.Equal(t, "2", p.free())
	require.Equal(t, []string{"2", "1", "2"}, listener.received())
}

// P1: where the number alone was lost, it is made again less what is out.
func TestSharedPermitsWhoseNumberWasLostAreNotGrantedTwice(t *testing.T) {
	t.Parallel()
	p := newSharedPermits(newFixture(t), 3)
	require.Equal(t, p.taken(), p.acquires(permitsHold("a", 2)))
	p.server.MustDo(t, "DEL", p.key)
	require.Equal(t, p.few(lease), p.acquires(permitsHold("b", 2)))
	require.Equal(t, p.taken(), p.acquires(permitsHold("b", 1)))
	require.Equal(t, []any{"0", int64(3)}, []any{p.free(), p.out()})
}

// Java writes down no end as a time that never comes.
func TestSharedPermitsWithoutAnEndAreWaitedForWithoutOne(t *testing.T) {
	t.Parallel()
	p := newSharedPermits(newFixture(t), 3)
	p.server.MustDo(t, "SET", p.key, "0")
	p.server.MustDo(t, "ZADD", p.timeouts, "922337203685477", "0123456789abcdef")
	require.Equal(t, p.few(-1), p.acquires(permitsHold("b", 1)))
	list := func(from, count int) []any {
		reply, err := p.tryKeys(scripts.Load("redisson/permit-list", 1), []string{p.timeouts}, "", from, count)
		require.NoError(t, err)
		return reply.([]any)
	}
	p.server.MustDo(t, "ZADD", p.timeouts, noon/1000, "fedcba9876543210", noon/1000+1, "fedcba9876543211")
	require.Equal(t, []any{"", "", "fedcba9876543211", digits(noon + 1000), "0123456789abcdef", digits(0)}, list(0, 100))
	require.Equal(t, []any{"", "", "0123456789abcdef", digits(0)}, list(1, 1))
}

// The life of the number, which a program in Java may have given it, is that of the permits.
func TestSharedPermitsEndWithTheirNumber(t *testing.T) {
	t.Parallel()
	p := newSharedPermits(newFixture(t), 3)
	p.server.MustDo(t, "SET", p.key, "3", "PX", time.Hour.Milliseconds())
	require.Equal(t, p.taken(), p.acquires(permitsHold("a", 1)))
	require.Positive(t, p.server.MustDo(t, "PTTL", p.timeouts))
	require.Positive(t, p.server.MustDo(t, "PTTL", p.key))
}

// P9: what is no semaphore's is left alone.
func TestWhatIsNoSemaphoreOfRedissonsIsLeftAlone(t *testing.T) {
	t.Parallel()
	foreign := []any{int64(-2), "?"}
	for name, c := range map[string]func(p *sharedPermits){
		"Text": func(p *sharedPermits) { p.server.MustDo(t, "SET", p.key, "a text") },
		"Hash": func(p *sharedPermits) { p.server.MustDo(t, "HSET", p.key, "mode", "read") },
		"Set":  func(p *sharedPermits) { p.server.MustDo(t, "SET", p.timeouts, "3") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newSharedPermits(newFixture(t), 3)
			c(p)
			before := []any{p.server.MustDo(t, "DUMP", p.key), p.server.MustDo(t, "DUMP", p.timeouts)}
			a := permitsHold("a", 1)
			require.Equal(t, foreign, p.acquires(a))
			require.Equal(t, foreign, p.splits(a, permitsHold("b", 2)))
			require.Equal(t, foreign, p.resizes(7))
			require.Equal(t, foreign, p.mustRun(scripts.Load("redisson/permit-available", 1)))
			require.Equal(t, p.had(0), p.releases(a))
			require.Equal(t, int64(0), p.renews(a, lease))
			require.Equal(t, before, []any{p.server.MustDo(t, "DUMP", p.key), p.server.MustDo(t, "DUMP", p.timeouts)})
		})
	}
}

// P10: where memory is full nothing is taken, and what was taken comes back.
func TestSharedPermitsComeBackWhereMemoryIsFull(t *testing.T) {
	t.Parallel()
	p := newSharedPermits(newFixtureAt(t), 3)
	a, b := permitsHold("a", 2), permitsHold("b", 1)
	require.Equal(t, p.taken(), p.acquires(a))
	p.fill()
	_, err := p.tryKeys(scripts.Load("redisson/permit-acquire", 1), p.keys(), p.acquiring(b)...)
	require.ErrorContains(t, err, "OOM")
	require.Equal(t, p.taken(), p.splits(b, a))
	require.Equal(t, p.had(1), p.releases(b))
	require.Equal(t, []any{"3", int64(0)}, []any{p.free(), p.out()})
}

// P1, P10: a client that may not count takes no permits, and loses none of those that have ended.
func TestSharedPermitsAreNotLostWithoutTheRightToCount(t *testing.T) {
	t.Parallel()
	p := newSharedPermits(newFixtureAt(t), 3)
	require.Equal(t, p.taken(), p.acquires(permitsHold("a", 2)))
	p.passes(lease * time.Millisecond)
	user := p.as("+@all", "-incrby")
	for range 2 {
		_, err := user.tryKeys(scripts.Load("redisson/permit-acquire", 1), p.keys(), p.acquiring(permitsHold("b", 1))...)
		requireDenied(t, err)
		require.Equal(t, []any{"1", int64(2)}, []any{p.free(), p.out()})
	}
	require.Equal(t, p.taken(), p.acquires(permitsHold("b", 3)))
}

// sharedStep is a step of a client that has no right to all of it, at a semaphore of five permits of which hold a has three.
type sharedStep func(p *sharedPermits) (*scripts.Script, []any)

var (
	sharedRelease sharedStep = func(p *sharedPermits) (*scripts.Script, []any) {
		return scripts.Load("redisson/permit-release", 1), p.releasing(permitsHold("a", 3))
	}
	sharedSplit sharedStep = func(p *sharedPermits) (*scripts.Script, []any) {
		return scripts.Load("redisson/permit-split", 1), p.splitting(permitsHold("b", 2), permitsHold("a", 3))
	}
	// sharedRepeat is an acquire of four that were held, of which one is gone: the others are to go as well.
	sharedRepeat sharedStep = func(p *sharedPermits) (*scripts.Script, []any) {
		return scripts.Load("redisson/permit-acquire", 1), p.acquiring(permitsHold("a", 4))
	}
)

// P1, P10: a client that may not count releases no permits, and loses none: they stay held, until their end.
func TestSharedPermitsStayHeldWithoutTheRightToCount(t *testing.T) {
	t.Parallel()
	a := permitsHold("a", 3)
	ends := strconv.FormatInt(noon/1000+lease, 10)
	for name, step := range map[string]sharedStep{"Release": sharedRelease, "Split": sharedSplit, "Repeat": sharedRepeat} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newSharedPermits(newFixtureAt(t), 5)
			require.Equal(t, p.taken(), p.acquires(a))
			p.passes(time.Second)
			listener, user := p.listen(), p.as("+@all", "-incrby")
			script, args := step(p)
			_, err := user.tryKeys(script, p.keys(), args...)
			requireDenied(t, err)
			require.Equal(t, []any{"2", int64(3)}, p.counts())
			for i := range 3 {
				require.Equal(t, ends, p.server.MustDo(t, "ZSCORE", p.timeouts, permitID("a", i+1)))
			}
			require.Empty(t, listener.received())
			require.Equal(t, p.had(1), p.releases(a))
		})
	}
}

// P1, P10: whatever right a client lacks, free and held permits add up to the capacity when the others continue.
func TestSharedPermitsAddUpWhateverRightIsMissing(t *testing.T) {
	t.Parallel()
	a, b, c := permitsHold("a", 3), permitsHold("b", 2), permitsHold("c", 4)
	for name, step := range map[string]sharedStep{
		"Release": sharedRelease, "Split": sharedSplit, "Repeat": sharedRepeat,
		"Acquire": func(p *sharedPermits) (*scripts.Script, []any) {
			return scripts.Load("redisson/permit-acquire", 1), p.acquiring(b)
		},
		"AcquireEnded": func(p *sharedPermits) (*scripts.Script, []any) {
			p.passes(lease * time.Millisecond)
			return scripts.Load("redisson/permit-acquire", 1), p.acquiring(c)
		},
		"Force": func(p *sharedPermits) (*scripts.Script, []any) {
			return scripts.Load("redisson/permit-force", 1), p.forcing(permitID("a", 1), permitID("a", 3))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, right := range []string{"get", "zcard", "zmscore", "zrange", "zadd", "zrem", "pttl", "pexpire", "incrby", "publish"} {
				for _, ends := range []bool{false, true} {
					t.Run(fmt.Sprintf("Without=%s/Ends=%v", right, ends), func(t *testing.T) {
						p := newSharedPermits(newFixtureAt(t), 5)
						require.Equal(t, p.taken(), p.acquires(a))
						if ends {
							p.server.MustDo(t, "PEXPIRE", p.key, 2*lease)
						}
						script, args := step(p)
						_, err := p.as("+@all", "-"+right).tryKeys(script, p.keys(), args...)
						for _, hold := range []string{a, b, c} { // as after any error; what is held without one ends here too
							p.releases(hold)
						}
						require.Equal(t, []any{"5", int64(0)}, p.counts(), err)
					})
				}
			}
		})
	}
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
