// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/errs"
)

// P7: the work of n attempts that leave grows as n, in whatever order they leave, and the others keep their order.
func TestLeavingAttemptsDoNotSearchForThemselves(t *testing.T) {
	t.Parallel()
	for name, order := range map[string]func(all []*Attempt){
		"FirstFirst": func([]*Attempt) {},
		"LastFirst":  slices.Reverse[[]*Attempt],
		"Random":     func(all []*Attempt) { rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] }) },
	} {
		for _, n := range []int{1, 2, 3, 1000, 4000} {
			t.Run(fmt.Sprint(name, n), func(t *testing.T) {
				t.Parallel()
				q := &Queue{waitState: new(waitState)}
				left := q.addWaiting(n, queued)
				leaving := slices.Clone(left)
				order(leaving)
				steps := 0
				for i, a := range leaving {
					slots := len(q.waiting.slots)
					q.waiting.remove(a)
					if steps++; len(q.waiting.slots) < slots {
						steps += slots // all were looked at
					}
					if n <= 3 || i%100 == 0 {
						left = slices.DeleteFunc(left, func(a *Attempt) bool { return slices.Contains(leaving[:i+1], a) })
						require.Equal(t, left, slices.AppendSeq([]*Attempt{}, q.waiting.all()))
						require.Equal(t, len(left), q.waiting.len())
						require.Len(t, q.listLocked(), min(len(left), maxListed))
					}
				}
				require.LessOrEqual(t, steps, 4*n)
				require.Zero(t, q.waiting.len())
			})
		}
	}
}

// P6: a try gives no heartbeat, and so must not count as one: a waiter that follows it is alive.
func TestWaiterAfterATryIsAlive(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	holder, u := f.direct(), f.direct()
	held := holder.acquire()
	_, err := u.q.try(t.Context(), lockRequest)
	require.ErrorIs(t, err, errs.ErrHeld)
	waiting := u.startWaiting(t.Context(), 1)
	require.NotNil(t, f.server.MustDo(t, "HGET", u.q.keys.AppendKeys(nil)[2], u.session.ID()))
	holder.release(held)
	u.release(within(t, "the lock", waiting).mustHave(t))
	f.awaitNothingLeft(holder, u)
}

// P9, states: waiting, and the server says that waiting cannot succeed.
func TestWaiterOfAnotherKindsNameIsRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	holder, u := f.direct(), f.direct()
	holder.acquire()
	waiting := []<-chan outcome{u.startWaiting(t.Context(), 1), u.startWaiting(t.Context(), 2)}
	f.server.MustDo(t, "SET", u.q.keys.Holder, "sb1q1780000000000000", "PX", 60_000)
	for _, w := range waiting {
		require.ErrorIs(t, within(t, "the end of the wait", w).err, errs.ErrWrongKind)
	}
	gone := func() bool { _, attempts, _ := u.Len(); return attempts == 0 && len(f.tickets()) == 0 }
	for range 2 {
		await(t, "the end of the ticket", gone)
		_, err := u.q.try(t.Context(), lockRequest)
		require.ErrorIs(t, err, errs.ErrWrongKind)
		_, err = u.q.Take(t.Context(), lockRequest)
		require.ErrorIs(t, err, errs.ErrWrongKind)
	}
	await(t, "the end of the ticket", gone)
}
