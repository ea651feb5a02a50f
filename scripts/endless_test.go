// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/scripts"
)

// P4: a sender without the right to PEXPIRE leaves no key without an end.
func TestDeniedExpiryLeavesNoEndlessKey(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]func(p *place) (*scripts.Script, []string, []any){
		"FairQueues": func(p *place) (*scripts.Script, []string, []any) {
			l := lineOf(p)
			l.holds(theirs)
			return scripts.FairEnter, l.keys(), l.enterArgs(ours, "1", l.next())
		},
		"Beats": func(p *place) (*scripts.Script, []string, []any) {
			l := lineOf(p)
			return scripts.LineBeat, []string{l.lives}, []any{we, life, l.next(), label}
		},
		"Reads": func(p *place) (*scripts.Script, []string, []any) {
			l := rwlockOf(p)
			return scripts.RWLockEnter, l.keys(), l.enterArgs(ours, reads, "0", "")
		},
		"WriterQueues": func(p *place) (*scripts.Script, []string, []any) {
			l := rwlockOf(p)
			l.has(theirs, writes)
			return scripts.RWLockEnter, l.keys(), l.enterArgs(ours, writes, "1", l.next())
		},
		"LeavesToTheDead": func(p *place) (*scripts.Script, []string, []any) {
			l := rwlockOf(p)
			l.dead(1, writes, noon-second)
			l.server.MustDo(l, "ZADD", l.tickets, digits(noon), ours)
			l.set(released(noon), time.Minute)
			return scripts.RWLockLeave, l.keys(), l.leaveArgs(ours)
		},
		"Permits": func(p *place) (*scripts.Script, []string, []any) {
			l := permitsOf(p, 1)
			return scripts.SemaphoreEnter, l.keys(), l.enterArgs(wish(ours, 1), "0", "")
		},
		"PermitsQueue": func(p *place) (*scripts.Script, []string, []any) {
			l := permitsOf(p, 1)
			l.has(wish(theirs, 1))
			return scripts.SemaphoreEnter, l.keys(), l.enterArgs(wish(ours, 1), "1", l.next())
		},
		"Resizes": func(p *place) (*scripts.Script, []string, []any) {
			l := permitsOf(p, 1)
			return scripts.SemaphoreResize, l.keys(), l.resizeArgs(3)
		},
		"ResizesReleased": func(p *place) (*scripts.Script, []string, []any) {
			l := permitsOf(p, 1)
			l.set(released(noon), time.Minute)
			return scripts.SemaphoreResize, l.keys(), l.resizeArgs(3)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlaceAt(t)
			script, keys, args := run(p)
			client := p.user("+@all", "-pexpire")
			words := make([]string, len(args))
			for i, arg := range args {
				words[i] = fmt.Sprint(arg)
			}
			err := client.Do(t.Context(), client.B().Eval().Script(p.source(script)).Numkeys(int64(len(keys))).Key(keys...).Arg(words...).Build()).Error()
			if err != nil {
				requireDenied(t, err)
			}
			for _, key := range p.server.Keys("sb:*") {
				require.NotEqual(t, int64(-1), p.server.MustDo(t, "PTTL", key), "%s has no end", key)
			}
		})
	}
}

// P4: a sender without the right to PEXPIRE leaves no hold in a key that others have made.
func TestDeniedExpiryLeavesNoHoldBesideOthers(t *testing.T) {
	t.Parallel()
	other := nth("c", 1)
	for name, run := range map[string]func(t *testing.T, p *place){
		"Reads": func(t *testing.T, p *place) {
			t.Helper()
			l := rwlockOf(p)
			l.has(theirs, reads)
			p.denied(scripts.RWLockEnter, l.keys(), l.enterArgs(ours, reads, "0", ""))
			l.leaves(theirs)
			require.Equal(t, int64(1), l.tries(other, writes)[0])
		},
		"Permits": func(t *testing.T, p *place) {
			t.Helper()
			l := permitsOf(p, 2)
			l.has(wish(theirs, 1))
			p.denied(scripts.SemaphoreEnter, l.keys(), l.enterArgs(wish(ours, 1), "0", ""))
			l.leaves(wish(theirs, 1))
			require.Equal(t, int64(1), l.tries(wish(other, 2))[0])
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, newPlaceAt(t))
		})
	}
}

// denied runs a script without the right to PEXPIRE, which it needs.
func (p *place) denied(script *scripts.Script, keys []string, args []any) {
	p.Helper()
	client := p.user("+@all", "-pexpire")
	words := make([]string, len(args))
	for i, arg := range args {
		words[i] = fmt.Sprint(arg)
	}
	call := client.B().Eval().Script(p.source(script)).Numkeys(int64(len(keys))).Key(keys...).Arg(words...).Build()
	requireDenied(p, client.Do(p.Context(), call).Error())
}
