// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/scripts"
)

// P10: giving back and handing on must work when nothing else does.
func TestAFairLockIsHandedOnWhenMemoryIsFull(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(p *line)
		gives   func(p *line) []any
		next    string // who has it then
	}{
		"LeaveToNobody":  {func(*line) {}, func(p *line) []any { return p.leaves(ours) }, ""},
		"LeaveToTheNext": {func(p *line) { p.joins(theirs) }, func(p *line) []any { return p.leaves(ours) }, theirs},
		"LeavePastTheDead": {
			func(p *line) { p.dead(300, noon-second); p.joins(theirs) },
			func(p *line) []any { return p.leaves(ours) }, theirs,
		},
		"LeaveToTheDead": {func(p *line) { p.dead(300, noon-second) }, func(p *line) []any { return p.leaves(ours) }, ""},
		"LeavePastThoseThatLostTheirPlace": {
			func(p *line) { p.dead(300, noon-hour); p.joins(theirs) },
			func(p *line) []any { return p.leaves(ours) }, theirs,
		},
		"Drop": {func(p *line) { p.joins(theirs) }, func(p *line) []any { return []any{p.drops(ours)} }, ""},
		"LookAfterTheEnd": {
			func(p *line) {
				p.joins(theirs)
				p.joins(holdOf("c"))
				p.set(fairHeld(ours, noon-second, noon), time.Minute)
			},
			func(p *line) []any { return p.looks(session("c"), holdOf("c")) }, theirs,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newLineAt(t)
			p.tries(ours)
			c.prepare(p)
			told := p.hears(they)
			p.fill()
			require.Equal(t, int64(1), c.gives(p)[0])
			if c.next == "" {
				require.Contains(t, []string{released(noon), fairFree(noon)}, p.value(), "the floor is kept")
				return
			}
			require.Equal(t, c.next, p.value()[20:61])
			require.Len(t, told.heard(), 1)
		})
	}
}

// P6, P10: a search that one call cannot finish goes on, though a release may write down nothing of it.
func TestALongSearchIsFinishedWhenMemoryIsFull(t *testing.T) {
	t.Parallel()
	p := newLineAt(t)
	p.tries(ours)
	p.dead(3000, noon-second)
	p.joins(theirs)
	p.fill()
	require.Equal(t, []any{int64(1), digits(noon), "", int64(1)}, p.leaves(ours))
	for range 3 {
		require.Equal(t, fairFree(noon), p.value(), "the floor is kept")
		p.looks(they, theirs)
	}
	require.Equal(t, theirs, p.has())
}

// P2, P6: what is there is kept when memory is full: holds and places.
func TestFairHoldsAndPlacesAreKeptWhenMemoryIsFull(t *testing.T) {
	t.Parallel()
	p := newLineAt(t)
	p.tries(ours)
	p.joins(theirs)
	p.fill()
	p.clock += second
	require.Equal(t, int64(1), p.renews(ours, time.Hour))
	require.Equal(t, fairHeld(ours, noon, p.clock+hour), p.value())
	p.requireLife(time.Hour + keeps)
	require.Equal(t, "1", p.looks(they, theirs)[4])
	require.Equal(t, digits(p.clock+life), p.said(they)[:16])
	require.Equal(t, []any{int64(2), digits(p.clock)}, p.leaves(theirs))
}

func TestAnEnterWritesNothingWhenMemoryIsFull(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(p *line){
		"Free": func(*line) {}, "Held": func(p *line) { p.holds(theirs) },
		"Queued": func(p *line) { p.holds(theirs); p.joins(holdOf("c")) },
	} {
		for _, queues := range []string{"0", "1"} {
			t.Run(name+queues, func(t *testing.T) {
				t.Parallel()
				p := newLineAt(t)
				prepare(p)
				p.fill()
				unchanged := p.unchanged()
				reply, err := p.tryKeys(scripts.FairEnter, p.keys(), p.enterArgs(ours, queues, p.next())...)
				unchanged()
				if queues == "0" && name != "Free" {
					require.NoError(t, err)
					require.Equal(t, int64(0), reply.([]any)[0])
					return
				}
				require.ErrorContains(t, err, "OOM")
			})
		}
	}
}

// P10: a message that is refused must not turn a done release into an error.
func TestADeniedMessageDoesNotFailAHandOff(t *testing.T) {
	t.Parallel()
	rights := []string{"+time", "+get", "+set", "+del", "+zrange", "+zpopmin", "+zrem", "+zcard", "+zscore", "+hget", "+hmget", "+hset", "+hdel", "+hlen", "+pexpire", "+exists"}
	for denied, more := range map[string][]string{"Command": nil, "Channel": {"+publish"}} {
		for verb, c := range map[string]struct {
			script *scripts.Script
			args   func(p *line) []any
			hold   func(p *line)
		}{
			"Leave": {scripts.FairLeave, func(p *line) []any { return p.leaveArgs(theirs) }, func(p *line) { p.tries(theirs) }},
			"Look": {
				scripts.FairLook, func(p *line) []any { return p.lookArgs(session("c")) },
				func(p *line) { p.set(fairHeld(theirs, noon-hour, noon), time.Minute) },
			},
		} {
			t.Run(denied+verb, func(t *testing.T) {
				t.Parallel()
				p := newLineAt(t)
				c.hold(p)
				p.server.MustDo(t, "ZADD", p.tickets, digits(noon), ours)
				p.beat(we, life, p.next())
				reply, err := p.as(append(rights, more...)...).tryKeys(c.script, p.keys(), c.args(p)...)
				require.NoError(t, err)
				require.Equal(t, int64(1), first(reply))
				require.Equal(t, ours, p.value()[20:61])
			})
		}
	}
}

// A right that is missing says nothing of the hold: it must not be taken for lost.
func TestADeniedRenewalDoesNotSayThatAFairHoldIsGone(t *testing.T) {
	t.Parallel()
	for _, rights := range [][]string{{"+time", "+get"}, {"+time", "+get", "+set"}, {"+time", "+get", "+pexpire"}} {
		p := newLineAt(t)
		p.holds(ours)
		require.Equal(t, int64(-1), p.as(rights...).run(scripts.HolderRenew, ours, 3600000))
		require.Equal(t, fairHeld(ours, noon, noon+lease*1000), p.value())
	}
}
