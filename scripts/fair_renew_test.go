// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/scripts"
)

func (p *line) renews(hold string, ttl time.Duration) any {
	p.Helper()
	return p.ask(scripts.HolderRenew, []string{p.key}, hold, ttl.Milliseconds())[0]
}

func TestARenewalOfAFairLockLengthensItsHold(t *testing.T) {
	t.Parallel()
	for name, hold := range map[string]string{"Hold": ours, "HoldAndStamp": digits(noon) + ours} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newLine(t)
			p.set(fairHeld(ours, noon, noon+second), 16*time.Second)
			p.clock += second - 1
			require.Equal(t, int64(1), p.renews(hold, time.Hour))
			require.Equal(t, fairHeld(ours, noon, p.clock+hour), p.value())
			p.requireLife(time.Hour + keeps)
			require.Equal(t, int64(1), p.renews(hold, time.Hour), "sent twice")
			require.Equal(t, int64(1), p.renews(hold, time.Second), "a shorter one, late")
			require.Equal(t, fairHeld(ours, noon, p.clock+hour), p.value())
			p.requireLife(time.Hour + keeps)
		})
	}
}

// P8: dead is dead, also while the key is still there, and though nobody else has the lock.
func TestARenewalRevivesNoFairHoldThatHasEnded(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{
		"Ended":             fairHeld(ours, noon-second, noon),
		"Free":              "",
		"Released":          released(noon),
		"FreeForTheQueued":  fairFree(noon),
		"Theirs":            fairHeld(theirs, noon, noon+hour),
		"AnotherOfOurs":     fairHeld(nth("a", 5), noon, noon+hour),
		"SameHoldNextStamp": fairHeld(ours, noon+1, noon+hour), // a copy of the entering gave it a second hold
		"CutShort":          "sb1f" + digits(noon) + ours,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newLine(t)
			if value != "" {
				p.set(value, time.Minute)
			}
			unchanged := p.unchanged()
			require.Equal(t, int64(0), p.renews(digits(noon)+ours, time.Hour))
			unchanged()
		})
	}
}

func (p *line) waiters(after string, count int) []any {
	p.Helper()
	return p.ask(scripts.FairWaiters, []string{p.tickets, p.lives}, after, count)
}

func TestWaitersAreToldInOrderAPageAtATime(t *testing.T) {
	t.Parallel()
	p := newLine(t)
	require.Empty(t, p.waiters("0", 10))
	p.holds(theirs)
	var want []any
	for n := range 25 {
		p.joins(nth("a", 100-n))
		want = append(want, we, digits(noon+int64(n)), int64(1), label)
	}
	unchanged := p.unchanged()
	var got []any
	after := "0"
	for page := p.waiters(after, 10); len(page) > 0; page = p.waiters(after, 10) {
		require.LessOrEqual(t, len(page), 40)
		got = append(got, page...)
		after = page[len(page)-3].(string)
	}
	require.Equal(t, want, got)
	unchanged()
}

func TestWaitersAreToldWhetherTheyLive(t *testing.T) {
	t.Parallel()
	p := newLine(t)
	p.holds(holdOf("z"))
	p.joins(ours)
	p.clock += life
	p.joins(theirs)
	p.server.MustDo(t, "ZADD", p.tickets, digits(noon+hour), holdOf("u")) // unknown
	require.Equal(t, []any{
		we, digits(noon), int64(0), label,
		they, digits(noon + life), int64(1), label,
		strings.Repeat("u", 22), digits(noon + hour), int64(0), "",
	}, p.waiters("0", 10))
}
