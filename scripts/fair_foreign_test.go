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

// fairCalls are all that is asked of a fair lock.
func fairCalls(p *line) map[string]func() (any, error) {
	call := func(script *scripts.Script, keys []string, args ...any) func() (any, error) {
		return func() (any, error) { return p.tryKeys(script, keys, args...) }
	}
	return map[string]func() (any, error){
		"Try":     call(scripts.FairEnter, p.keys(), p.enterArgs(ours, "0", "")...),
		"Join":    call(scripts.FairEnter, p.keys(), p.enterArgs(ours, "1", p.next())...),
		"Leave":   call(scripts.FairLeave, p.keys(), p.leaveArgs(ours)...),
		"Look":    call(scripts.FairLook, p.keys(), p.lookArgs(we, ours)...),
		"Drop":    call(scripts.FairDrop, p.keys()[:1], ours),
		"Renew":   call(scripts.HolderRenew, p.keys()[:1], holdOf("z"), lease),
		"Waiters": call(scripts.FairWaiters, p.keys()[1:], "0", 10),
	}
}

// P9: a key that is none of ours, or another kind's, is left as it is, and so are the others.
func TestAFairLockLeavesAForeignHolderKeyAlone(t *testing.T) {
	t.Parallel()
	kinds := map[string]string{
		"OtherKind": "?", "OtherKindToo": "w", // cut short for a fair one; another kind, whatever its rest
		"CutShort": "r", "Unmarked": "r", "TooLong": "r", // those of a reentrant lock are none of ours to judge
	}
	for what, made := range foreign {
		kind, ok := kinds[what]
		if !ok {
			kind = made.kind
		}
		for verb := range fairCalls(newLine(t)) {
			t.Run(what+"/"+verb, func(t *testing.T) {
				t.Parallel()
				p := newLine(t)
				p.server.MustDo(t, append([]any{made.make[0], p.key}, made.make[2:]...)...)
				unchanged := p.unchanged()
				reply, err := fairCalls(p)[verb]()
				unchanged()
				switch {
				case err != nil:
					require.ErrorContains(t, err, "WRONGTYPE")
					require.Empty(t, kind)
				case verb == "Try" || verb == "Join" || verb == "Look":
					require.Equal(t, []any{int64(-2), kind}, reply)
				}
			})
		}
	}
	for name, value := range map[string]string{
		"TooLong": fairHeld(theirs, noon, noon+hour) + strings.Repeat("x", 65-len(label)),
	} {
		p := newLine(t)
		p.set(value, time.Minute)
		unchanged := p.unchanged()
		require.Equal(t, []any{int64(-2), "?"}, p.tries(ours), name)
		unchanged()
	}
}

// P9, P10: types are looked at before the first write.
func TestAFairLockLeavesForeignKeysOfItsLineAlone(t *testing.T) {
	t.Parallel()
	states := map[string]func(p *line){
		"Free":  func(*line) {},
		"Held":  func(p *line) { p.holds(theirs) },
		"Ours":  func(p *line) { p.holds(ours) },
		"Ended": func(p *line) { p.set(fairHeld(theirs, noon-hour, noon), time.Minute) },
		"Line":  func(p *line) { p.holds(theirs); p.joins(holdOf("c")) },
		"EndedLine": func(p *line) {
			p.set(fairHeld(theirs, noon-hour, noon), time.Minute)
			p.dead(2, noon-second)
		},
		"OursLine": func(p *line) { p.holds(ours); p.dead(2, noon-second) },
	}
	refused := 0
	for state, prepare := range states { //nolint:paralleltest // refusals are counted
		for _, which := range []int{1, 2} {
			for _, kind := range []string{"List", "String", "Stream"} {
				for verb := range fairCalls(newLine(t)) {
					t.Run(fmt.Sprint(state, "/", which, "/", kind, "/", verb), func(t *testing.T) {
						p := newLine(t)
						prepare(p)
						p.server.MustDo(t, "DEL", p.keys()[which])
						made := foreign[kind].make
						p.server.MustDo(t, append([]any{made[0], p.keys()[which]}, made[2:]...)...)
						ends := p.server.MustDo(t, "PEXPIRETIME", p.keys()[which])
						dump := p.server.MustDo(t, "DUMP", p.keys()[which])
						unchanged := p.unchanged()
						if _, err := fairCalls(p)[verb](); err != nil {
							require.ErrorContains(t, err, "WRONGTYPE")
							refused++
							unchanged()
						}
						require.Equal(t, dump, p.server.MustDo(t, "DUMP", p.keys()[which]))
						require.Equal(t, ends, p.server.MustDo(t, "PEXPIRETIME", p.keys()[which]))
					})
				}
			}
		}
	}
	require.Greater(t, refused, 50)
}

// P9: kinds that share a name keep each other out, while the lock is held and while somebody queues.
func TestOtherKindsAreKeptOutWhileAFairLockIsHeldOrQueuedFor(t *testing.T) {
	t.Parallel()
	acquire := func(p *line) any {
		return p.run(scripts.ReentrantAcquire, claimOf(theirs), lease, digits(p.clock), they)
	}
	for name, prepare := range map[string]func(p *line){
		"Held": func(p *line) { p.tries(ours) },
		"EndedAndQueued": func(p *line) {
			p.set(fairHeld(holdOf("z"), noon-hour, noon-1), keeps)
			p.server.MustDo(p, "ZADD", p.tickets, 1, ours)
		},
		"Dropped": func(p *line) { p.tries(holdOf("z")); p.joins(ours); p.drops(holdOf("z")) },
		"Granted": func(p *line) { p.tries(holdOf("z")); p.joins(ours); p.leaves(holdOf("z")) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newLine(t)
			prepare(p)
			unchanged := p.unchanged()
			require.Equal(t, []any{int64(-2), "f"}, acquire(p))
			unchanged()
		})
	}
	p := newLine(t)
	p.tries(ours)
	p.leaves(ours)
	require.Equal(t, []any{int64(1), digits(noon + 1), block, digits(noon)}, acquire(p), "and not after it")
	require.Equal(t, []any{int64(-2), "r"}, p.tries(ours))
	require.Equal(t, []any{int64(-2), "r"}, p.looks(we, ours))
	p.release(theirs, noon+1)
}
