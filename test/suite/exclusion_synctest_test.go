// SPDX-License-Identifier: Apache-2.0

package suite_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// monitor counts what holders take of a name by their own word, and the tokens that they have.
type monitor struct {
	mu struct {
		sync.Mutex
		entered  map[*entered]bool
		greatest uint64 // the greatest token of a hold that was entered
	}
}

// entered is a hold that is in use. It takes nothing any more if it is over.
type entered struct {
	hold  Hold
	takes int
}

// enter is called by a holder, and what it returns before it releases.
func (m *monitor) enter(w *World, p *Process, h Hold) (leave func()) {
	w.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.entered == nil {
		m.mu.entered = make(map[*entered]bool)
	}
	e := &entered{h, p.kind.takes()}
	m.mu.entered[e] = true
	taken := 0
	for other := range m.mu.entered {
		if other.hold.Err() == nil {
			taken += other.takes
		}
	}
	assert.LessOrEqual(w, taken, max(p.kind.Of, 1), "too many hold it")
	// Holders that share have no order.
	isRising := p.kind.NoTokens || p.kind.shares() || h.Token() > m.mu.greatest
	assert.True(w, isRising || h.Err() != nil, "the token %d after %d", h.Token(), m.mu.greatest)
	m.mu.greatest = max(m.mu.greatest, h.Token())
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.mu.entered, e)
	}
}

// use acquires a lock, has it for a while, and releases it. It reports whether it had it.
func (m *monitor) use(ctx context.Context, w *World, p *Process, name string, while time.Duration) bool {
	w.Helper()
	h, err := p.Lock(name).Lock(ctx)
	if err != nil {
		assert.ErrorIs(w, err, ctx.Err())
		return false
	}
	leave := m.enter(w, p, h)
	time.Sleep(while)
	leave()
	return w.Released(h)
}

// crowd lets three processes with three goroutines each, and unlike wires, use one name.
func crowd(w *World, k Kind) {
	var m monitor
	var group sync.WaitGroup
	for i, p := range []*Process{w.Process(k), w.Rival(k), w.Process(k)} {
		p.Latency(time.Duration(i+1) * time.Millisecond)
		for g := range 3 {
			group.Go(func() {
				for n := range w.rounds(6, 30) {
					assert.True(w, m.use(w.Context(), w, p, "a", time.Duration((i+g+n)%3)*time.Millisecond))
				}
			})
		}
	}
	group.Wait()
}

// crowdThatGivesUp is a crowd whose contexts end at unlike times, mostly while it waits.
func crowdThatGivesUp(w *World, k Kind) {
	var m monitor
	var group sync.WaitGroup
	processes := []*Process{w.Process(k), w.Rival(k), w.Process(k)}
	for i, p := range processes {
		p.Latency(time.Duration(1+2*i) * time.Millisecond)
		for g := range 3 {
			group.Go(func() {
				for n := range redistest.Rounds(8, 60) {
					ctx, cancel := context.WithTimeout(w.Context(), time.Duration((7*i+5*g+3*n)%40)*time.Millisecond)
					m.use(ctx, w, p, "a", time.Duration(n%4)*time.Millisecond)
					cancel()
				}
			})
		}
	}
	group.Wait()
	time.Sleep(9 * time.Second) // what was given up is undone
	w.LeavesNothing(processes[0], "a")
	for _, p := range processes {
		w.Free(p, "a")
	}
}

// keptWarm uses a hold that is idle in one process, and lets others recall it: with a message and without one, by a call that does not wait,
// and after the process died. A hold that no message can recall is not kept.
func keptWarm(w *World, k Kind) {
	a, b := w.Process(k, signalbox.WithKeepWarm(20*time.Second)), w.Rival(k)
	keep := func(name string) {
		w.Helper()
		for range 2 { // the first use begins to listen for recalls
			w.Unlocks(w.Holds(a, name))
			time.Sleep(100 * time.Millisecond)
		}
		held, _ := w.Keys(b, name)
		require.NotEmpty(w, held, "it is not kept")
	}
	recalls := func(name string, within time.Duration) {
		w.Helper()
		w.Unlocks(w.Gets(w.Waits(w.Context(), b, name), within))
	}
	keep("used")
	w.Unlocks(w.Holds(a, "used")) // it sends a request, since the hold was idle for more than 20 ms
	a.Arm(0, None)
	h := w.Holds(a, "used")
	require.Empty(w, a.Requests(), "the hold is not kept")
	waiting := w.Waits(w.Context(), b, "used")
	require.Empty(w, waiting)
	w.Unlocks(h)
	next := w.Gets(waiting, 0)
	w.Rises(k, h, next)
	w.Unlocks(next)
	keep("idle")
	recalls("idle", 0)
	require.NotContains(w, a.Requests(), "lock/requeue")
	keep("tried")
	_, err := b.Lock("tried").TryLock(w.Context())
	require.ErrorIs(w, err, signalbox.ErrHeld)
	w.Arrive()
	w.Unlocks(locktest.Must(w, b.Lock("tried").TryLock))
	keep("cut")
	a.CutSubscriptions()
	w.Arrive()
	held, _ := w.Keys(b, "cut")
	require.Empty(w, held)
	time.Sleep(10 * time.Second) // it listens again
	keep("lost")
	a.LoseMessages(true)
	recalls("lost", time.Second)
	a.LoseMessages(false)
	keep("its process died")
	time.Sleep(10 * time.Second) // it was renewed a few times
	a.Silence()
	recalls("its process died", 4100*time.Millisecond)
}

// tokensRise compares tokens after a release, a time without use, a hand-over to a waiter, a death and the loss of the keys.
func tokensRise(w *World, k Kind) {
	a, b := w.Process(k), w.Rival(k)
	last := w.Holds(a, "a")
	rises := func(next Hold) {
		w.Helper()
		w.Rises(k, last, next)
		last = next
	}
	for _, p := range []*Process{a, b, a, b} {
		w.Unlocks(last)
		if w.Virtual && p == b {
			time.Sleep(50 * time.Second)
		}
		rises(w.Holds(p, "a"))
	}
	waiting := w.Waits(w.Context(), a, "a")
	w.Unlocks(last)
	rises(w.Gets(waiting, time.Second))
	a.Silence()
	rises(w.Holds(b, "a"))
	w.Forget(b, "a")
	time.Sleep(2 * time.Millisecond)
	rises(w.Holds(w.Process(k), "a"))
	if w.Virtual {
		w.keepsFloor(w.Process(k), time.Minute)
		w.keepsFloor(w.Process(k, signalbox.WithTokenFloor(24*time.Hour)), 24*time.Hour)
		w.defaults = append(w.defaults, signalbox.WithDefaults(signalbox.WithTokenFloor(10*time.Minute)))
		w.keepsFloor(w.Process(k), 10*time.Minute)
	}
}

// keepsFloor requires that a majority of the servers keeps an idle name for so long, whether its hold was released or ended by force.
func (w *World) keepsFloor(p *Process, want time.Duration) {
	w.Helper()
	name := fmt.Sprint("idle for ", want)
	isKept := func() {
		w.Helper()
		w.Arrive()
		lefts := make([]int64, len(w.admins))
		for i, server := range w.admins {
			for _, key := range w.keysOf(p, name).Holds { // of which one is there
				ms, err := w.Do(server, key, "PTTL").AsInt64()
				require.NoError(w, err)
				lefts[i] = max(lefts[i], ms)
			}
		}
		slices.Sort(lefts)
		ofMajority := time.Duration(lefts[(len(lefts)-1)/2]) * time.Millisecond // a redlock is granted before the others reply
		require.InDelta(w, want, ofMajority, float64(2*time.Second))
	}
	w.Unlocks(w.Holds(p, name))
	isKept()
	if forcible := p.forcible(name); forcible != nil {
		h := w.Holds(p, name)
		require.NoError(w, forcible.ForceUnlock(w.Context()))
		<-h.Done()
		isKept()
	}
}

// onlyItsLease deletes the keys of a holder. Its Unlock then leaves the next hold as it is, and so does a second Unlock of any.
func onlyItsLease(w *World, k Kind) {
	a, b := w.Process(k), w.Rival(k)
	h := w.Holds(a, "a")
	w.Forget(b, "a")
	time.Sleep(2 * time.Millisecond) // a latch has no other number than the time
	next := w.Holds(b, "a")
	if err := h.Unlock(); !k.Function {
		require.Error(w, err)
	}
	require.NoError(w, next.Err())
	held, _ := w.Keys(b, "a")
	require.NotEmpty(w, held)
	w.tryFails(a, "a")
	w.Unlocks(next)
	third := w.Holds(a, "a")
	require.Error(w, next.Unlock())
	w.tryFails(b, "a")
	w.Unlocks(third)
	w.Free(b, "a")
}

// tryFails requires that TryLock says that the lock is held, and that Lock waits.
func (w *World) tryFails(p *Process, name string) {
	w.Helper()
	if !p.kind.NoTry {
		_, err := p.Lock(name).TryLock(w.Context())
		require.ErrorIs(w, err, signalbox.ErrHeld)
	}
	w.Held(p, name)
}

// names holds several names at once, none of which is another one.
func names(w *World, k Kind) {
	a, b := w.Process(k), w.Rival(k)
	_, err := a.Lock("").Lock(w.Context())
	require.Error(w, err)
	all := []string{
		"{}", "a b", "ä\x00ö", "{x}y", "x", "a:queue", "a", "A", "a ", "}", "a}:lock", "%7Ba%7D", "\xff", "\xc3\x28", "\uFFFD", "a:permits", "a}:readers",
		"sb:{a}:lock", "*", "a\r\nb", strings.Repeat("{", 200),
	}
	held := make(map[string]Hold)
	for _, name := range slices.Clone(all) {
		h, err := a.Lock(name).Lock(w.Context())
		if k.In != nil && (errors.Is(err, signalbox.ErrBadName) || errors.Is(err, signalbox.ErrUnsupported)) {
			all = slices.DeleteFunc(all, func(other string) bool { return other == name }) // its keys would be in several slots
			continue
		}
		require.NoError(w, err)
		held[name] = h
	}
	for i, name := range all {
		w.Unlocks(held[name])
		w.Free(b, name)
		if i+1 < len(all) {
			w.Held(b, all[i+1])
		}
	}
}

// foreignKey finds a key of another program in the place of its own.
func foreignKey(w *World, k Kind) {
	p := w.Process(k)
	keys := w.keysOf(p, "a")
	for _, key := range keys.Holds {
		for _, server := range w.admins {
			require.NoError(w, w.Do(server, key, "RPUSH", "of another program").Error())
		}
	}
	ctx, cancel := context.WithTimeout(w.Context(), 5*time.Second)
	defer cancel()
	_, err := p.Lock("a").Lock(ctx)
	if w.Virtual {
		require.Error(w, err) // the embedded server says it in words of its own
	} else {
		require.ErrorIs(w, err, signalbox.ErrWrongKind)
	}
	time.Sleep(w.Life / 5)
	for _, key := range keys.Holds {
		left, err := w.Do(w.admins[0], key, "LRANGE", "0", "-1").AsStrSlice()
		require.NoError(w, err)
		require.Equal(w, []string{"of another program"}, left, fmt.Sprint(key))
	}
}
