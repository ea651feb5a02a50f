// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/scripts"
)

// P10: giving back and handing on must work when nothing else does.
func TestAReadWriteLockIsHandedOnWhenMemoryIsFull(t *testing.T) {
	t.Parallel()
	leaves := func(p *rwlock) { require.Equal(p, int64(1), p.leaves(ours)[0]) }
	for name, c := range map[string]struct {
		mode    string // in which ours has it
		prepare func(p *rwlock)
		gives   func(p *rwlock)
		then    string // the mode in which theirs has it then, or ""
	}{
		"LeaveToNobody":      {writes, func(*rwlock) {}, leaves, ""},
		"LeaveToReaders":     {writes, func(p *rwlock) { p.queues(theirs, reads) }, leaves, reads},
		"LeaveToTheWriter":   {reads, func(p *rwlock) { p.queues(theirs, writes) }, leaves, writes},
		"LeavePastTheDead":   {reads, func(p *rwlock) { p.dead(300, writes, noon-second); p.queues(theirs, writes) }, leaves, writes},
		"LeavePastTheGone":   {writes, func(p *rwlock) { p.dead(300, reads, noon-hour); p.queues(theirs, reads) }, leaves, reads},
		"LeaveToTheDead":     {writes, func(p *rwlock) { p.dead(300, reads, noon-second) }, leaves, ""},
		"Force":              {writes, func(p *rwlock) { p.queues(theirs, reads) }, func(p *rwlock) { require.Equal(p, int64(1), p.forces(ours)) }, reads},
		"LookAfterTheEnd":    {writes, func(p *rwlock) { p.queues(theirs, reads); p.drops(ours) }, func(p *rwlock) { p.looks(session("c")) }, reads},
		"Downgrade":          {writes, func(p *rwlock) { p.queues(theirs, reads) }, func(p *rwlock) { require.Equal(p, int64(1), p.downgrades(ours)[0]) }, reads},
		"DowngradeForNobody": {writes, func(*rwlock) {}, func(p *rwlock) { require.Equal(p, int64(1), p.downgrades(ours)[0]) }, ""},
		"Cancel": {reads, func(p *rwlock) { p.queues(holdOf("w"), writes); p.queues(theirs, reads) }, func(p *rwlock) {
			require.Equal(p, int64(2), p.leaves(holdOf("w"))[0])
		}, reads},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newRWLockAt(t)
			p.has(ours, c.mode)
			c.prepare(p)
			told := p.hears(they)
			p.fill()
			c.gives(p)
			if c.then == "" {
				require.Equal(t, noon, p.floor(), "it is kept")
				return
			}
			require.Contains(t, p.until(), theirs)
			require.Equal(t, map[string]int64{reads: 0, writes: 1}[c.then], p.scores(p.key)["phase"])
			require.Len(t, told.heard(), 1)
		})
	}
}

// P2, P6: what is there is kept when memory is full: holds and places.
func TestReadersHoldsAndPlacesAreKeptWhenMemoryIsFull(t *testing.T) {
	t.Parallel()
	p := newRWLockAt(t)
	p.has(ours, reads)
	p.queues(theirs, writes)
	p.fill()
	p.clock += second
	require.Equal(t, int64(1), p.renews(ours, time.Hour.Milliseconds()))
	require.Equal(t, map[string]int64{ours: p.clock + hour}, p.until())
	p.requireLife(time.Hour + keeps)
	require.Equal(t, "1", p.looks(they, theirs)[4])
	require.Equal(t, digits(p.clock+life), p.said(they)[:16])
	require.Equal(t, "2", p.looks(we, ours)[4])
	require.Equal(t, []any{int64(2), digits(p.clock), "", int64(0)}, p.leaves(theirs))
}

func TestAnEnterOfAReadWriteLockWritesNothingWhenMemoryIsFull(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare   func(p *rwlock)
		isRefused bool // also where it comes to try
	}{
		"Free":     {func(*rwlock) {}, true},
		"Released": {func(p *rwlock) { p.has(theirs, writes); p.leaves(theirs) }, true},
		"Shared":   {func(p *rwlock) { p.has(theirs, reads) }, true},
		"Held":     {func(p *rwlock) { p.has(theirs, writes) }, false},
		"Queued":   {func(p *rwlock) { p.has(theirs, reads); p.queues(holdOf("c"), writes) }, false},
	} {
		for _, queues := range []string{"0", "1"} {
			t.Run(name+queues, func(t *testing.T) {
				t.Parallel()
				p := newRWLockAt(t)
				c.prepare(p)
				p.fill()
				unchanged := p.unchanged()
				reply, err := p.tryKeys(scripts.RWLockEnter, p.keys(), p.enterArgs(ours, reads, queues, p.next())...)
				unchanged()
				if queues == "0" && !c.isRefused {
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
func TestADeniedMessageDoesNotFailAHandOffToReaders(t *testing.T) {
	t.Parallel()
	rights := []string{
		"+time", "+get", "+set", "+del", "+exists", "+pexpire", "+zmscore", "+zscore", "+zrange", "+zcard", "+zadd", "+zrem",
		"+hget", "+hmget", "+hset", "+hdel", "+hlen",
	}
	for denied, more := range map[string][]string{"Command": nil, "Channel": {"+publish"}} {
		for verb, c := range map[string]struct {
			script *scripts.Script
			args   func(p *rwlock) []any
		}{
			"Leave":     {scripts.RWLockLeave, func(p *rwlock) []any { return p.leaveArgs(theirs) }},
			"Force":     {scripts.RWLockForce, func(p *rwlock) []any { return p.forceArgs(theirs) }},
			"Downgrade": {scripts.RWLockDowngrade, func(p *rwlock) []any { return p.leaveArgs(theirs) }},
			"Look":      {scripts.RWLockLook, func(p *rwlock) []any { p.drops(theirs); return p.lookArgs(session("c")) }},
		} {
			t.Run(denied+verb, func(t *testing.T) {
				t.Parallel()
				p := newRWLockAt(t)
				p.has(theirs, writes)
				p.queues(ours, reads)
				reply, err := p.as(append(rights, more...)...).tryKeys(c.script, p.keys(), c.args(p)...)
				require.NoError(t, err)
				require.Equal(t, int64(1), first(reply))
				require.Contains(t, p.until(), ours)
			})
		}
	}
}

// P4, P10: who has no right to give a key an end leaves no key without one.
func TestADeniedEndLeavesNoHoldOfAReadWriteLockWithoutOne(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]func(p *rwlock){
		"Free": func(*rwlock) {}, "Released": func(p *rwlock) { p.has(theirs, writes); p.leaves(theirs) }, "Shared": func(p *rwlock) { p.has(theirs, reads) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newRWLockAt(t)
			before(p)
			floor := p.floor()
			user := p.as("+time", "+get", "+set", "+del", "+exists", "+zmscore", "+zscore", "+zrange", "+zcard", "+zadd", "+zrem")
			_, err := user.tryKeys(scripts.RWLockEnter, p.keys(), p.enterArgs(ours, reads, "0", "")...)
			requireDenied(t, err)
			require.GreaterOrEqual(t, p.floor(), floor)
			p.requireEnds()
		})
	}
}
