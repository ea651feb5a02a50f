// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/scripts"
)

// lockWalk takes random steps, and checks after each what holds of every step.
type lockWalk struct {
	*queued

	random *rand.Rand
	fresh  int             // ids so far
	tried  []string        // attempts that may hold or queue
	holder string          // the attempt that held before the step, also if its hold has ended
	queue  []any           // the attempts that waited before the step, in order
	recent int64           // what a session has left of its life whose tickets are not overtaken
	alive  map[string]bool // the tickets whose sessions had that
	token  int64           // the greatest that a hold or a floor ever had
	ended  string          // the attempt that the step ended, which may have waited
	isOpen bool            // the key was lost, and no poll of a ticket came since
}

// P1, P3, P5, R2 to R5: whatever comes, in whatever order.
func TestRandomWalksKeepThePromisesOfALock(t *testing.T) {
	t.Parallel()
	for seed := range uint64(redistest.Rounds(20, 4)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w := &lockWalk{queued: newLock(t), random: rand.New(rand.NewPCG(seed, 7)), recent: 1} //nolint:gosec // repeatable
			if seed%2 == 0 {
				w.suffix = fairMode
			} else {
				w.recent = life * 3 / 5
			}
			for range 100 {
				w.before()
				step := w.step()
				w.after(step)
			}
		})
	}
}

func (w *lockWalk) before() {
	w.clock += w.random.Int64N(900) * 1000
	if w.random.IntN(8) == 0 {
		w.clock += life
	}
	w.ended = ""
	w.holder, w.queue, w.alive = w.lockHas(), w.queued.queue(), make(map[string]bool)
	for _, ticket := range w.queue {
		said := w.replied(ticket.(string)[:22])
		w.alive[ticket.(string)] = said != "" && parseStamp(w, said[:16])-w.clock >= w.recent
	}
}

// another returns a fresh attempt of any session.
func (w *lockWalk) another() string {
	w.fresh++
	w.tried = append(w.tried, nth([]string{"a", "b", "c"}[w.random.IntN(3)], w.fresh))
	return w.tried[len(w.tried)-1]
}

// attempt returns one that was made before.
func (w *lockWalk) attempt() string {
	if len(w.tried) == 0 {
		return w.another()
	}
	return w.tried[w.random.IntN(len(w.tried))]
}

// step returns what it did, and the attempt that may hold now without having waited.
func (w *lockWalk) step() (mayTake string) {
	hold := w.attempt()
	keys := w.all
	if w.random.IntN(6) == 0 {
		keys = w.all[:1]
	}
	switch w.random.IntN(8) {
	case 0, 1:
		hold = w.another()
		w.mustRun(w.enter, keys, w.enterArgs(hold, []string{"0", "1"}[w.random.IntN(2)], w.next())...)
		return hold
	case 2, 3:
		reply := w.mustRun(w.poll, keys, w.pollArgs(hold[:22], hold)...)
		if reply[4] == "1" {
			w.isOpen = false
		}
	case 4:
		if w.holder != "" {
			hold = w.holder
		}
		if w.value() != "" && w.random.IntN(2) == 0 {
			w.frees(hold, digits(0))
		} else {
			w.ended = hold
			w.mustRun(w.leave, keys, w.leaveArgs(hold)...)
		}
	case 5, 6:
		if w.holder != "" {
			hold = w.holder
		}
		fresh := hold[:22] + w.another()[22:]
		w.tried[len(w.tried)-1], w.ended = fresh, hold
		w.mustRun(scripts.LockRequeue, keys, w.requeueArgs(hold, fresh, "0")...)
		return fresh
	default:
		switch w.random.IntN(4) {
		case 0:
			w.server.MustDo(w, "DEL", w.key)
			w.isOpen, w.token = true, 0
		case 1:
			w.mustRun(scripts.LockForce, keys, w.forceArgs(hold)...)
		default:
			w.renews(hold, lease*1_000_000)
		}
	}
	return ""
}

func (w *lockWalk) after(mayTake string) {
	holder, queue := w.lockHas(), w.queued.queue()
	if holder != "" && holder != w.holder {
		require.NotContains(w, queue, holder, "who holds has no ticket")
		require.Greater(w, w.floor(), w.token, "tokens grow")
		for _, ticket := range w.queue {
			if ticket == holder {
				break
			}
			require.True(w, w.isOpen || !w.alive[ticket.(string)] || ticket == w.ended, "%s is overtaken by %s", ticket, holder)
		}
		require.True(w, holder == mayTake || slices.Contains(w.queue, any(holder)), "%s neither waited nor came now", holder)
	}
	if value := w.value(); value != "" {
		w.token = max(w.token, w.floor())
	}
	require.True(w, w.isOpen || len(queue) == 0 || w.isMarked(), "the mark is lost with tickets in the queue")
	require.NotEqual(w, int64(-1), w.ttl(w.key), "it has an end")
}
