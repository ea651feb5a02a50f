// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/scripts"
)

// A latch stands at the key of a fixture here.

const (
	nonceA, nonceB = "AAAAAAAAAAA", "BBBBBBBBBBB"
	kept           = "0003600000" // an hour
)

func (p *fixture) start(nonce string, total int) []any {
	p.Helper()
	return p.run(scripts.CountdownStart, nonce, fmt.Sprintf("%08d", total), kept, digits(noon+1_000_000), "").([]any)
}

func (p *fixture) count(stamp int64, id string) []any {
	p.Helper()
	return p.run(scripts.CountdownCount, digits(stamp), id, "PUBLISH", p.channel).([]any)
}

func (p *fixture) reset(nonce string) []any {
	p.Helper()
	return p.run(scripts.CountdownReset, nonce, "PUBLISH", p.channel).([]any)
}

func (p *fixture) readLatch() []any {
	p.Helper()
	return p.run(scripts.CountdownRead).([]any)
}

// latchSays is what the key says of its newest round.
func latchSays(stamp int64, state, nonce string, since int64, total int) string {
	return "sb1" + digits(stamp) + state + nonce + digits(since) + fmt.Sprintf("%08d", total) + kept
}

func TestARoundIsCountedDownAndOpens(t *testing.T) {
	t.Parallel()
	p := newFixture(t)
	listener := p.listen()
	require.Equal(t, []any{int64(1), digits(noon), digits(noon)}, p.start(nonceA, 3))
	p.requireLife(time.Hour)
	require.Equal(t, []any{int64(1), latchSays(noon, "c", nonceA, noon, 3), "", int64(3)}, p.readLatch())
	require.Equal(t, []any{int64(1), int64(2)}, p.count(noon, "x"))
	require.Equal(t, []any{int64(1), int64(2)}, p.count(noon, "x"))
	require.Equal(t, []any{int64(1), int64(1)}, p.count(noon, "y"))
	require.Equal(t, []any{int64(1), latchSays(noon, "c", nonceA, noon, 3), "", int64(1)}, p.readLatch())
	require.Empty(t, listener.received())
	require.Equal(t, []any{int64(1), int64(0)}, p.count(noon, "z"))
	require.Equal(t, []string{digits(noon) + "o" + nonceA}, listener.received())
	require.Equal(t, []any{int64(1), latchSays(noon, "o", nonceA, noon, 3), "", int64(0)}, p.readLatch())
	require.EqualValues(t, 2, p.server.MustDo(t, "HLEN", p.key))
	p.requireLife(time.Hour)
	says := p.server.MustDo(t, "DUMP", p.key)
	for _, id := range []string{"x", "z", "new"} {
		p.server.MustDo(t, "PEXPIRE", p.key, time.Minute.Milliseconds())
		require.Equal(t, []any{int64(1), int64(0)}, p.count(noon, id))
		p.requireLife(time.Hour)
	}
	require.Equal(t, says, p.server.MustDo(t, "DUMP", p.key))
	require.Empty(t, listener.received(), "told once")
}

// P5: a start that is sent twice begins one round, whatever happened to the round in between.
func TestAStartSentAgainBeginsNothing(t *testing.T) {
	t.Parallel()
	p := newFixture(t)
	p.start(nonceA, 1)
	again := func() {
		t.Helper()
		unchanged := p.untouched()
		require.Equal(t, []any{int64(1), digits(noon), digits(p.clock)}, p.start(nonceA, 1))
		unchanged()
	}
	again()
	p.clock++
	again()
	p.count(noon, "x")
	again()
	p.start(nonceB, 1)
	again()
	p.reset(nonceB)
	again()
	require.Equal(t, []any{int64(1), digits(noon + 1), digits(noon + 1)}, p.start(nonceB, 1))
}

// P5: a start whose copy may have begun a round that is forgotten by now begins no second one.
func TestForgottenStartBeginsNoSecondRound(t *testing.T) {
	t.Parallel()
	p := newFixture(t)
	again := func(first string) []any {
		t.Helper()
		return p.run(scripts.CountdownStart, nonceA, "00000001", kept, digits(noon+1_000_000), first).([]any)
	}
	sent := digits(noon)
	p.start(nonceA, 1)
	p.count(noon, "x")
	for n := range 32 {
		p.clock++
		require.Equal(t, []any{int64(1), digits(noon), digits(p.clock)}, again(sent), "known still")
		p.start(fmt.Sprintf("%011d", n), 1)
		p.count(p.clock, "x")
	}
	p.clock++
	p.start(nonceB, 1)
	unchanged := p.untouched()
	require.Equal(t, []any{int64(-6), digits(p.clock)}, again(sent), "also while another round is running")
	unchanged()
	p.count(p.clock, "x")
	unchanged = p.untouched()
	require.Equal(t, []any{int64(-6), digits(p.clock)}, again(sent))
	unchanged()
	require.Equal(t, int64(1), again(digits(p.clock))[0], "no copy is as old as what is forgotten")
}

func TestAStartIsRefusedWhileARoundRuns(t *testing.T) {
	t.Parallel()
	p := newFixture(t)
	p.start(nonceA, 1)
	unchanged := p.untouched()
	require.Equal(t, []any{int64(0), digits(noon)}, p.start(nonceB, 1))
	unchanged()
}

// Stamps rise, also where the clock was set back or stands still.
func TestStampsOfRoundsRise(t *testing.T) {
	t.Parallel()
	p := newFixture(t)
	p.start(nonceA, 1)
	p.reset(nonceA)
	p.clock = noon - 5_000_000
	require.Equal(t, []any{int64(1), digits(noon + 1), digits(p.clock)}, p.start(nonceB, 1))
	p.clock = noon + 10
	p.reset(nonceB)
	require.Equal(t, []any{int64(1), digits(noon + 10), digits(noon + 10)}, p.start("CCCCCCCCCCC", 1))
	require.Equal(t, digits(noon+1)+"x"+nonceB+digits(noon)+"x"+nonceA, p.readLatch()[2])
}

func TestALateStartWritesNothing(t *testing.T) {
	t.Parallel()
	p := newFixture(t)
	p.clock = noon + 1_000_001
	require.Equal(t, []any{int64(-1), digits(p.clock)}, p.start(nonceA, 1))
	require.EqualValues(t, 0, p.server.MustDo(t, "EXISTS", p.key))
	p.clock--
	require.EqualValues(t, 1, p.start(nonceA, 1)[0])
}

func TestAResetEndsItsOwnRoundAlone(t *testing.T) {
	t.Parallel()
	p := newFixture(t)
	listener := p.listen()
	require.Equal(t, []any{int64(0), digits(noon)}, p.reset(nonceA))
	require.EqualValues(t, 0, p.server.MustDo(t, "EXISTS", p.key))
	p.start(nonceA, 2)
	p.count(noon, "x")
	unchanged := p.untouched()
	require.Equal(t, []any{int64(0), digits(noon)}, p.reset(nonceB))
	unchanged()
	require.Equal(t, []any{int64(1), digits(noon)}, p.reset(nonceA))
	require.Equal(t, []string{digits(noon) + "x" + nonceA}, listener.received())
	unchanged = p.untouched()
	require.Equal(t, []any{int64(0), digits(noon)}, p.reset(nonceA))
	require.Equal(t, []any{int64(0), latchSays(noon, "x", nonceA, noon, 2), ""}, p.count(noon, "y"))
	unchanged()
	require.Empty(t, listener.received())
}

// The last 32 rounds are remembered. Where a reset is forgotten, what was up to there is not taken for open.
func TestWhatIsForgottenIsKnownToBe(t *testing.T) {
	t.Parallel()
	p := newFixture(t)
	var stamps []int64
	for i := range 36 {
		p.clock++
		nonce := fmt.Sprintf("%011d", i)
		stamps = append(stamps, p.clock)
		p.start(nonce, 1)
		if i == 1 {
			p.reset(nonce)
		} else {
			p.count(p.clock, "x")
		}
		poll := p.readLatch()
		since := stamps[0]
		if i > 33 {
			since = stamps[1] + 1
		}
		require.Equal(t, digits(since), poll[1].(string)[31:47], i)
		require.Len(t, poll[2], 28*min(i, 32))
	}
}

func TestACountForAnotherRoundCountsNothing(t *testing.T) {
	t.Parallel()
	p := newFixture(t)
	require.Equal(t, []any{int64(0), "", ""}, p.count(noon, "x"))
	require.EqualValues(t, 0, p.server.MustDo(t, "EXISTS", p.key))
	p.start(nonceA, 2)
	unchanged := p.untouched()
	for _, stamp := range []int64{noon - 1, noon + 1} {
		require.Equal(t, []any{int64(0), latchSays(noon, "c", nonceA, noon, 2), ""}, p.count(stamp, "x"))
	}
	unchanged()
}

func TestAReadKeepsTheLatch(t *testing.T) {
	t.Parallel()
	p := newFixture(t)
	require.Equal(t, []any{int64(0)}, p.readLatch())
	p.start(nonceA, 1)
	p.server.MustDo(t, "PEXPIRE", p.key, (59*time.Minute + 50*time.Second).Milliseconds())
	unchanged := p.untouched()
	p.readLatch()
	unchanged()
	for _, left := range []time.Duration{58 * time.Minute, 20 * time.Minute} {
		p.server.MustDo(t, "PEXPIRE", p.key, left.Milliseconds())
		p.readLatch()
		p.requireLife(time.Hour)
	}
}

// P9: what is no latch is left alone.
func TestAForeignKeyIsNoLatch(t *testing.T) {
	t.Parallel()
	calls := map[string]func(p *fixture) (any, error){
		"start": func(p *fixture) (any, error) {
			return p.try(scripts.CountdownStart, nonceA, "00000001", kept, digits(noon), "")
		},
		"count": func(p *fixture) (any, error) {
			return p.try(scripts.CountdownCount, digits(noon), "x", "PUBLISH", p.channel)
		},
		"look":  func(p *fixture) (any, error) { return p.try(scripts.CountdownRead) },
		"reset": func(p *fixture) (any, error) { return p.try(scripts.CountdownReset, nonceA, "PUBLISH", p.channel) },
	}
	good := latchSays(noon, "c", nonceA, noon, 1)
	for what, command := range map[string][]any{
		"String": {"SET", "", "x"}, "List": {"RPUSH", "", "x"}, "Zset": {"ZADD", "", 1, "x"}, "Hash": {"HSET", "", "f", "x"},
		"OtherLayout": {"HSET", "", "round", "sb2" + good[3:]}, "CutShort": {"HSET", "", "round", good[:64]},
		"TooLong": {"HSET", "", "round", good + "0"}, "Empty": {"HSET", "", "round", ""}, "Lock": {"SET", "", votedFor(ours, noon, "")},
	} {
		for verb, call := range calls {
			t.Run(what+"/"+verb, func(t *testing.T) {
				t.Parallel()
				p := newFixture(t)
				p.server.MustDo(t, append([]any{command[0], p.key}, command[2:]...)...)
				unchanged, listener := p.untouched(), p.listen()
				reply, err := call(p)
				unchanged()
				require.Empty(t, listener.received())
				if err != nil {
					require.ErrorContains(t, err, "WRONGTYPE")
					return
				}
				require.Equal(t, []any{int64(-2)}, reply)
			})
		}
	}
}

// P10: the last count-down and a reset take no memory, and are not refused where it is full; the others write nothing.
func TestALatchWhenMemoryIsFull(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(p *fixture) []any{
		"Open":  func(p *fixture) []any { return p.count(noon, "y") },
		"Reset": func(p *fixture) []any { return p.reset(nonceA) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newFixtureAt(t)
			p.start(nonceA, 3)
			p.count(noon, "x")
			listener := p.listen()
			p.fill()
			unchanged := p.untouched()
			_, err := p.try(scripts.CountdownCount, digits(noon), "new", "PUBLISH", p.channel)
			require.ErrorContains(t, err, "OOM")
			_, err = p.try(scripts.CountdownStart, nonceB, "00000001", kept, digits(noon), "")
			require.NoError(t, err, "it is running")
			unchanged()
			p.server.MustDo(t, "CONFIG", "SET", "maxmemory", "0")
			p.count(noon, "z")
			p.server.MustDo(t, "CONFIG", "SET", "maxmemory", "1")
			require.EqualValues(t, 1, end(p)[0])
			require.Len(t, listener.received(), 1)
			p.requireLife(time.Hour)
			ended := p.untouched()
			_, err = p.try(scripts.CountdownStart, nonceB, "00000001", kept, digits(noon), "")
			require.ErrorContains(t, err, "OOM")
			ended()
		})
	}
}

// P10: what a right that is missing does: nothing is half done, and a message that is denied fails nothing.
func TestALatchWithoutARight(t *testing.T) {
	t.Parallel()
	all := []string{"+time", "+hget", "+hset", "+hlen", "+exists", "+pexpire", "+pttl", "+unlink", "+publish"}
	for _, without := range all {
		t.Run(strings.TrimPrefix(without, "+"), func(t *testing.T) {
			t.Parallel()
			p := newFixtureAt(t)
			var rights []string
			for _, right := range all {
				if right != without {
					rights = append(rights, right)
				}
			}
			user := p.as(rights...)
			do := func(script *scripts.Script, args ...any) error {
				_, err := user.try(script, args...)
				return err
			}
			start := do(scripts.CountdownStart, nonceA, "00000001", kept, digits(noon), "")
			if start != nil {
				require.EqualValues(t, 0, p.server.MustDo(t, "EXISTS", p.key), "%v", start)
				p.start(nonceA, 1)
			}
			p.requireLife(time.Hour)
			count := do(scripts.CountdownCount, digits(noon), "x", "PUBLISH", p.channel)
			state := p.readLatch()[1].(string)[19:20]
			require.Equal(t, count == nil, state == "o", "%v", count)
			p.requireLife(time.Hour)
			denies := map[string]bool{"+hget": true, "+hset": true, "+hlen": true, "+pexpire": true}
			require.Equal(t, denies[without], count != nil, "%v", count)
			if count != nil {
				p.count(noon, "x")
			}
			// Ids that could not be let go of do not count in the next round.
			p.server.MustDo(t, "HSET", p.key, ":old", "")
			again := do(scripts.CountdownStart, nonceB, "00000002", kept, digits(noon), "")
			if again == nil {
				require.EqualValues(t, 2, p.readLatch()[3])
			} else {
				require.Equal(t, "o", p.readLatch()[1].(string)[19:20], "%v", again)
			}
			p.requireLife(time.Hour)
		})
	}
}
