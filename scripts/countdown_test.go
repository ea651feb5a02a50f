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

func (f *fixture) start(nonce string, total int) []any {
	f.Helper()
	return f.run(scripts.CountdownStart, nonce, fmt.Sprintf("%08d", total), kept, digits(noon+1_000_000), "").([]any)
}

func (f *fixture) count(stamp int64, id string) []any {
	f.Helper()
	return f.run(scripts.CountdownCount, digits(stamp), id, "PUBLISH", f.channel).([]any)
}

func (f *fixture) reset(nonce string) []any {
	f.Helper()
	return f.run(scripts.CountdownReset, nonce, "PUBLISH", f.channel).([]any)
}

func (f *fixture) readLatch() []any {
	f.Helper()
	return f.run(scripts.CountdownRead).([]any)
}

// latchSays is what the key says of its newest round.
func latchSays(stamp int64, state, nonce string, since int64, total int) string {
	return "sb1" + digits(stamp) + state + nonce + digits(since) + fmt.Sprintf("%08d", total) + kept
}

func TestARoundIsCountedDownAndOpens(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	listener := f.listen()
	require.Equal(t, []any{int64(1), digits(noon), digits(noon)}, f.start(nonceA, 3))
	f.requireLife(time.Hour)
	require.Equal(t, []any{int64(1), latchSays(noon, "c", nonceA, noon, 3), "", int64(3)}, f.readLatch())
	require.Equal(t, []any{int64(1), int64(2)}, f.count(noon, "x"))
	require.Equal(t, []any{int64(1), int64(2)}, f.count(noon, "x"))
	require.Equal(t, []any{int64(1), int64(1)}, f.count(noon, "y"))
	require.Equal(t, []any{int64(1), latchSays(noon, "c", nonceA, noon, 3), "", int64(1)}, f.readLatch())
	require.Empty(t, listener.received())
	require.Equal(t, []any{int64(1), int64(0)}, f.count(noon, "z"))
	require.Equal(t, []string{digits(noon) + "o" + nonceA}, listener.received())
	require.Equal(t, []any{int64(1), latchSays(noon, "o", nonceA, noon, 3), "", int64(0)}, f.readLatch())
	require.EqualValues(t, 2, f.server.MustDo(t, "HLEN", f.key))
	f.requireLife(time.Hour)
	says := f.server.MustDo(t, "DUMP", f.key)
	for _, id := range []string{"x", "z", "new"} {
		f.server.MustDo(t, "PEXPIRE", f.key, time.Minute.Milliseconds())
		require.Equal(t, []any{int64(1), int64(0)}, f.count(noon, id))
		f.requireLife(time.Hour)
	}
	require.Equal(t, says, f.server.MustDo(t, "DUMP", f.key))
	require.Empty(t, listener.received(), "told once")
}

// P5: a start that is sent twice begins one round, whatever happened to the round in between.
func TestAStartSentAgainBeginsNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.start(nonceA, 1)
	again := func() {
		t.Helper()
		unchanged := f.untouched()
		require.Equal(t, []any{int64(1), digits(noon), digits(f.clock)}, f.start(nonceA, 1))
		unchanged()
	}
	again()
	f.clock++
	again()
	f.count(noon, "x")
	again()
	f.start(nonceB, 1)
	again()
	f.reset(nonceB)
	again()
	require.Equal(t, []any{int64(1), digits(noon + 1), digits(noon + 1)}, f.start(nonceB, 1))
}

// P5: a start whose copy may have begun a round that is forgotten by now begins no second one.
func TestForgottenStartBeginsNoSecondRound(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	again := func(first string) []any {
		t.Helper()
		return f.run(scripts.CountdownStart, nonceA, "00000001", kept, digits(noon+1_000_000), first).([]any)
	}
	sent := digits(noon)
	f.start(nonceA, 1)
	f.count(noon, "x")
	for n := range 32 {
		f.clock++
		require.Equal(t, []any{int64(1), digits(noon), digits(f.clock)}, again(sent), "known still")
		f.start(fmt.Sprintf("%011d", n), 1)
		f.count(f.clock, "x")
	}
	f.clock++
	f.start(nonceB, 1)
	unchanged := f.untouched()
	require.Equal(t, []any{int64(-6), digits(f.clock)}, again(sent), "also while another round is running")
	unchanged()
	f.count(f.clock, "x")
	unchanged = f.untouched()
	require.Equal(t, []any{int64(-6), digits(f.clock)}, again(sent))
	unchanged()
	require.Equal(t, int64(1), again(digits(f.clock))[0], "no copy is as old as what is forgotten")
}

func TestAStartIsRefusedWhileARoundRuns(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.start(nonceA, 1)
	unchanged := f.untouched()
	require.Equal(t, []any{int64(0), digits(noon)}, f.start(nonceB, 1))
	unchanged()
}

// Stamps rise, also where the clock was set back or stands still.
func TestStampsOfRoundsRise(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.start(nonceA, 1)
	f.reset(nonceA)
	f.clock = noon - 5_000_000
	require.Equal(t, []any{int64(1), digits(noon + 1), digits(f.clock)}, f.start(nonceB, 1))
	f.clock = noon + 10
	f.reset(nonceB)
	require.Equal(t, []any{int64(1), digits(noon + 10), digits(noon + 10)}, f.start("CCCCCCCCCCC", 1))
	require.Equal(t, digits(noon+1)+"x"+nonceB+digits(noon)+"x"+nonceA, f.readLatch()[2])
}

func TestALateStartWritesNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.clock = noon + 1_000_001
	require.Equal(t, []any{int64(-1), digits(f.clock)}, f.start(nonceA, 1))
	require.EqualValues(t, 0, f.server.MustDo(t, "EXISTS", f.key))
	f.clock--
	require.EqualValues(t, 1, f.start(nonceA, 1)[0])
}

func TestAResetEndsItsOwnRoundAlone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	listener := f.listen()
	require.Equal(t, []any{int64(0), digits(noon)}, f.reset(nonceA))
	require.EqualValues(t, 0, f.server.MustDo(t, "EXISTS", f.key))
	f.start(nonceA, 2)
	f.count(noon, "x")
	unchanged := f.untouched()
	require.Equal(t, []any{int64(0), digits(noon)}, f.reset(nonceB))
	unchanged()
	require.Equal(t, []any{int64(1), digits(noon)}, f.reset(nonceA))
	require.Equal(t, []string{digits(noon) + "x" + nonceA}, listener.received())
	unchanged = f.untouched()
	require.Equal(t, []any{int64(0), digits(noon)}, f.reset(nonceA))
	require.Equal(t, []any{int64(0), latchSays(noon, "x", nonceA, noon, 2), ""}, f.count(noon, "y"))
	unchanged()
	require.Empty(t, listener.received())
}

// The last 32 rounds are remembered. Where a reset is forgotten, what was up to there is not taken for open.
func TestWhatIsForgottenIsKnownToBe(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var stamps []int64
	for i := range 36 {
		f.clock++
		nonce := fmt.Sprintf("%011d", i)
		stamps = append(stamps, f.clock)
		f.start(nonce, 1)
		if i == 1 {
			f.reset(nonce)
		} else {
			f.count(f.clock, "x")
		}
		poll := f.readLatch()
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
	f := newFixture(t)
	require.Equal(t, []any{int64(0), "", ""}, f.count(noon, "x"))
	require.EqualValues(t, 0, f.server.MustDo(t, "EXISTS", f.key))
	f.start(nonceA, 2)
	unchanged := f.untouched()
	for _, stamp := range []int64{noon - 1, noon + 1} {
		require.Equal(t, []any{int64(0), latchSays(noon, "c", nonceA, noon, 2), ""}, f.count(stamp, "x"))
	}
	unchanged()
}

func TestAReadKeepsTheLatch(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	require.Equal(t, []any{int64(0)}, f.readLatch())
	f.start(nonceA, 1)
	f.server.MustDo(t, "PEXPIRE", f.key, (59*time.Minute + 50*time.Second).Milliseconds())
	unchanged := f.untouched()
	f.readLatch()
	unchanged()
	for _, left := range []time.Duration{58 * time.Minute, 20 * time.Minute} {
		f.server.MustDo(t, "PEXPIRE", f.key, left.Milliseconds())
		f.readLatch()
		f.requireLife(time.Hour)
	}
}

// P9: what is no latch is left alone.
func TestAForeignKeyIsNoLatch(t *testing.T) {
	t.Parallel()
	calls := map[string]func(f *fixture) (any, error){
		"start": func(f *fixture) (any, error) {
			return f.try(scripts.CountdownStart, nonceA, "00000001", kept, digits(noon), "")
		},
		"count": func(f *fixture) (any, error) {
			return f.try(scripts.CountdownCount, digits(noon), "x", "PUBLISH", f.channel)
		},
		"read":  func(f *fixture) (any, error) { return f.try(scripts.CountdownRead) },
		"reset": func(f *fixture) (any, error) { return f.try(scripts.CountdownReset, nonceA, "PUBLISH", f.channel) },
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
				f := newFixture(t)
				f.server.MustDo(t, append([]any{command[0], f.key}, command[2:]...)...)
				unchanged, listener := f.untouched(), f.listen()
				reply, err := call(f)
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
	for name, end := range map[string]func(f *fixture) []any{
		"Open":  func(f *fixture) []any { return f.count(noon, "y") },
		"Reset": func(f *fixture) []any { return f.reset(nonceA) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixtureAt(t)
			f.start(nonceA, 3)
			f.count(noon, "x")
			listener := f.listen()
			f.fill()
			unchanged := f.untouched()
			_, err := f.try(scripts.CountdownCount, digits(noon), "new", "PUBLISH", f.channel)
			require.ErrorContains(t, err, "OOM")
			_, err = f.try(scripts.CountdownStart, nonceB, "00000001", kept, digits(noon), "")
			require.NoError(t, err, "it is running")
			unchanged()
			f.server.MustDo(t, "CONFIG", "SET", "maxmemory", "0")
			f.count(noon, "z")
			f.server.MustDo(t, "CONFIG", "SET", "maxmemory", "1")
			require.EqualValues(t, 1, end(f)[0])
			require.Len(t, listener.received(), 1)
			f.requireLife(time.Hour)
			ended := f.untouched()
			_, err = f.try(scripts.CountdownStart, nonceB, "00000001", kept, digits(noon), "")
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
			f := newFixtureAt(t)
			var rights []string
			for _, right := range all {
				if right != without {
					rights = append(rights, right)
				}
			}
			user := f.as(rights...)
			do := func(script *scripts.Script, args ...any) error {
				_, err := user.try(script, args...)
				return err
			}
			start := do(scripts.CountdownStart, nonceA, "00000001", kept, digits(noon), "")
			if start != nil {
				require.EqualValues(t, 0, f.server.MustDo(t, "EXISTS", f.key), "%v", start)
				f.start(nonceA, 1)
			}
			f.requireLife(time.Hour)
			count := do(scripts.CountdownCount, digits(noon), "x", "PUBLISH", f.channel)
			state := f.readLatch()[1].(string)[19:20]
			require.Equal(t, count == nil, state == "o", "%v", count)
			f.requireLife(time.Hour)
			denies := map[string]bool{"+hget": true, "+hset": true, "+hlen": true, "+pexpire": true}
			require.Equal(t, denies[without], count != nil, "%v", count)
			if count != nil {
				f.count(noon, "x")
			}
			// Ids that could not be let go of do not count in the next round.
			f.server.MustDo(t, "HSET", f.key, ":old", "")
			again := do(scripts.CountdownStart, nonceB, "00000002", kept, digits(noon), "")
			if again == nil {
				require.EqualValues(t, 2, f.readLatch()[3])
			} else {
				require.Equal(t, "o", f.readLatch()[1].(string)[19:20], "%v", again)
			}
			f.requireLife(time.Hour)
		})
	}
}
