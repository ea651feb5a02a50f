// SPDX-License-Identifier: Apache-2.0

package suite_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/election"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/redlock"
	"github.com/signalbox-go/signalbox/test"
)

// mishaps is a crowd of which the servers' clocks are set back and queues are lost: no two hold it, tokens rise, nothing is lost, and a
// free lock has no waiter for longer than two polls. If it is rough, clocks are set forward too, by years, and all keys are lost, kept for
// ever, cut short, restored and replaced: two may then hold it until the next renewal of the former holder. If wires is set, the wires of the
// processes fail as well.
type mishaps struct {
	*World

	k            Kind
	rough, wires bool
	monitor      monitor
	grants       atomic.Int64
	waiting      atomic.Int64
	steps        atomic.Int64    // how often a clock was set
	ahead        []atomic.Int64  // by server: how far its clock is ahead
	old          [][]test.Backup // by server: what it had before

	mu struct {
		sync.Mutex
		uses []*useOf // in the order of their beginnings
		log  []string
	}
}

// useOf is a hold in use. For so long those that began later have taken so much that it cannot be held still.
type useOf struct {
	entered

	late time.Duration
}

// onMishaps lets a crowd use a lock for a while. The seed says what happens, and whether that is rough, and wires fail.
func (w *World) onMishaps(k Kind, seed uint64, lasts time.Duration) {
	w.Helper()
	h := &mishaps{World: w, k: k, rough: seed&1 != 0, wires: seed&2 != 0}
	h.ahead, h.old = make([]atomic.Int64, len(w.redis)), make([][]test.Backup, len(w.redis))
	for i, m := range w.redis {
		m.Server().SetPreHook(func(_ *server.Peer, command string, _ ...string) bool {
			if strings.HasPrefix(command, "EVAL") {
				m.SetTime(time.Now().Add(time.Duration(h.ahead[i].Load())))
			}
			return false
		})
	}
	defer func() {
		if w.Failed() {
			w.Logf("rough %v, wires %v\n%s", h.rough, h.wires, strings.Join(h.mu.log, "\n"))
		}
	}()
	ctx, cancel := context.WithTimeout(w.Context(), lasts)
	defer cancel()
	processes := []*Process{w.Process(k), w.Rival(k), w.Process(k)}
	var group sync.WaitGroup
	for i, p := range processes {
		p.Latency(time.Duration(i) * time.Millisecond)
		if h.wires {
			group.Go(func() { p.disturb(ctx, chance{newDice(seed, uint64(i))}) })
		}
		for g := range 2 {
			c := chance{newDice(seed, uint64(3+2*i+g))}
			group.Go(func() {
				for ctx.Err() == nil {
					h.use(ctx, p, c)
					time.Sleep(c.below(200 * time.Millisecond))
				}
			})
		}
	}
	group.Go(func() {
		for c := (chance{newDice(seed, 99)}); ctx.Err() == nil; time.Sleep(c.below(4 * time.Second)) {
			h.happens(c)
		}
	})
	group.Go(func() { h.watch(ctx) })
	group.Wait()
	for i := range w.redis {
		h.step(i, -time.Duration(h.ahead[i].Load()))
	}
	dead := time.Duration(4*max(1, int(lasts/time.Minute))) * k.Dead
	time.Sleep(80*time.Second + dead) // what is left of the dead ends by itself
	if h.rough && k.In != nil {
		w.Forget(processes[0], "a") // keys of others that were kept for ever stay so
	}
	if h.rough { // so do those of queues; a hold ends when it is found, and a server that lost its data waits from then on
		for _, p := range processes {
			w.Unlocks(w.HoldsWithin(p, "a", 2*time.Minute))
		}
		return
	}
	for _, p := range processes {
		w.Free(p, "a")
	}
	time.Sleep(4 * time.Second)
	w.LeavesNothing(processes[0], "a")
	require.Greater(w, h.grants.Load(), int64(lasts/(40*time.Second)), "it was no use")
}

func (h *mishaps) note(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.log = append(h.mu.log, time.Now().Format("04:05.000 ")+fmt.Sprintf(format, args...))
}

// step sets the clock of a server. Keys end by it: they live for longer if it is set back.
func (h *mishaps) step(i int, step time.Duration) {
	h.steps.Add(1)
	m := h.redis[i]
	m.SetTime(time.Now().Add(time.Duration(h.ahead[i].Add(int64(step)))))
	for _, key := range m.Keys() {
		if left := m.TTL(key); step < 0 && left > 0 { // set forward, the embedded server does that itself
			m.SetTTL(key, left-step)
		}
	}
}

// happens does something to the clock or a key of a server.
func (h *mishaps) happens(c chance) {
	i := c.IntN(len(h.redis))
	m := h.redis[i]
	keys := slices.DeleteFunc(m.Keys(), func(key string) bool {
		return !strings.Contains(key, "{") && key != "a" && !strings.HasPrefix(key, "a")
	})
	key := ""
	if len(keys) > 0 {
		key = keys[c.IntN(len(keys))]
	}
	isQueue := h.k.In == nil && (strings.HasSuffix(key, "queue") || strings.HasSuffix(key, "heartbeats") || strings.HasSuffix(key, "readers"))
	back := []time.Duration{time.Microsecond, time.Millisecond, 300 * time.Millisecond, 2 * time.Second, 28 * time.Second, 100 * time.Second, 2 * time.Hour}
	what, step := c.IntN(14), -back[c.IntN(len(back))]
	const year = 365 * 24 * time.Hour
	switch {
	case what < 4:
		if h.rough && c.IntN(2) == 0 {
			step = append(slices.Repeat([]time.Duration{-step}, 4), year, -year, 20*year, -20*year)[c.IntN(8)]
		}
		h.note("the clock of %d: %v", i, step)
		h.step(i, step)
		return
	case what == 4:
		h.old[i] = append(h.old[i], test.BackupOf(m))
		return
	case key == "" || !h.rough && (!isQueue || what > 7):
		return
	}
	h.note("%s of %d: %d", key, i, what)
	one := test.BackupOf(m)[key]
	switch {
	case what < 7:
		m.Del(key)
	case what == 7:
		m.SetTTL(key, c.below(time.Second)+1)
	case what == 8:
		m.SetTTL(key, 200*year)
	case what == 9:
		_ = h.Do(h.admins[i], key, "PERSIST").Error()
	case what == 10 && one.Text != "":
		_ = m.Set(key, one.Text[:c.IntN(len(one.Text))])
		m.SetTTL(key, max(one.Life, time.Second))
	case what == 10:
		for _, name := range slices.Sorted(maps.Keys(one.Fields)) {
			m.HSet(key, name, one.Fields[name][:c.IntN(len(one.Fields[name])+1)])
		}
		if members := slices.Sorted(maps.Keys(one.Members)); len(members) > 0 {
			_, _ = m.ZAdd(key, float64(c.IntN(1000)), members[c.IntN(len(members))])
		}
	case what == 11:
		others := []test.BackupKey{{Text: "x"}, {Fields: map[string]string{"x": "x"}}, {Members: map[string]float64{"x": 1}}, {List: []string{"x"}}}
		others[c.IntN(4)].Restore(m, key)
		time.Sleep(c.below(3 * time.Second))
		m.Del(key)
	case len(h.old[i]) > 0:
		old := h.old[i][c.IntN(len(h.old[i]))]
		if what == 13 { // all that it had, as a restart with an old file
			old.Restore(m)
		} else if c, is := old[key]; is {
			c.Restore(m, key)
		}
	}
}

// use acquires the lock on one of several terms, has it for a while and releases it.
func (h *mishaps) use(ctx context.Context, p *Process, c chance) {
	terms := []signalbox.LockOption{
		signalbox.WithRenewedLease(h.Life), signalbox.WithRenewedLease(h.Life), signalbox.WithRenewedLease(2 * time.Second), signalbox.WithFixedLease(12 * time.Second),
		signalbox.WithMaxHold(12 * time.Second),
	}
	options := p.kind.on(terms[c.IntN(len(terms))])
	if p.kind.Servers > 1 {
		options = append(options, redlock.GreatestLease(h.Life))
	}
	lock, limit := p.kind.New(p.Sessions, "a", options...), 90*time.Second
	if h.rough || c.IntN(3) == 0 {
		limit = c.below(10 * time.Second)
	}
	call := lock.Lock
	if !p.kind.NoTry && c.IntN(8) == 0 {
		call = lock.TryLock
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	began := time.Now()
	h.waiting.Add(1)
	hold, err := call(limited)
	h.waiting.Add(-1)
	assert.LessOrEqual(h, time.Since(began), limit+time.Second, "the call is late: %v", err)
	if err != nil {
		h.note("%p %v", p, err)
		isKnown := errors.Is(err, limited.Err()) || errors.Is(err, signalbox.ErrHeld) || errors.Is(err, signalbox.ErrBadOption)
		isYoung := errors.Is(err, signalbox.ErrRefused) && h.k.Servers > 1 // its epoch is ahead of its clock
		assert.True(h, isKnown || isYoung || h.rough || h.wires, "%v", err)
		return
	}
	h.note("%p has it by %d", p, hold.Token())
	h.grants.Add(1)
	leave := h.enter(p, hold)
	while := c.below(300 * time.Millisecond)
	if c.IntN(4) == 0 {
		while = c.below(10 * time.Second)
	}
	select {
	case <-hold.Done():
	case <-time.After(while):
	}
	leave()
	err = hold.Unlock()
	h.note("%p releases %d: %v", p, hold.Token(), err)
	isKnown := err == nil || errors.Is(err, signalbox.ErrMaxHold) || errors.Is(err, election.ErrHandover) || p.kind.Function
	assert.True(h, isKnown || h.rough || h.wires || h.k.StepsDown, "%v", err)
}

// enter records that a hold is in use, until leave is called.
func (h *mishaps) enter(p *Process, hold Hold) (leave func()) {
	if !h.rough && !h.wires && h.k.Servers <= 1 { // tokens may fall after a lost release, and of a quorum whose clocks differ
		return h.monitor.enter(h.World, p, hold)
	}
	u := &useOf{entered: entered{hold, p.kind.takes()}}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.uses = append(h.mu.uses, u)
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.mu.uses = slices.DeleteFunc(h.mu.uses, func(v *useOf) bool { return v == u })
	}
}

// watch requires that two hold it for no longer than a renewal takes, and that a free lock has no waiter for longer than two polls; or,
// if holders may die, for longer than their leases, once more for each step of a clock.
func (h *mishaps) watch(ctx context.Context) {
	const tick = 100 * time.Millisecond
	most, free, step := time.Duration(0), 3*time.Second, time.Duration(0)
	switch {
	case h.rough && h.wires:
		most = h.Life
	case h.rough:
		most = h.Life/3 + 4*time.Second
	}
	if h.rough || h.wires || h.k.Servers > 1 {
		step = time.Duration(max(h.k.Members, 1)) * h.Life
		free = h.Life + step + h.k.Dead
	}
	grants, steps, idle := int64(0), int64(0), time.Duration(0)
	for ; ctx.Err() == nil; time.Sleep(tick) {
		isLive := false
		h.mu.Lock()
		taken := 0
		for _, u := range slices.Backward(h.mu.uses) {
			if u.hold.Err() == nil {
				isLive = true
				if taken += u.takes; taken > max(h.k.Of, 1) {
					u.late += tick
				}
			}
			if !assert.LessOrEqual(h, u.late, most+tick, "two hold it, since %d", u.hold.Token()) {
				h.mu.Unlock()
				return
			}
		}
		h.mu.Unlock()
		h.monitor.mu.Lock()
		for e := range h.monitor.mu.entered {
			isLive = isLive || e.hold.Err() == nil
		}
		h.monitor.mu.Unlock()
		idle += tick
		if now := h.grants.Load(); isLive || now != grants || h.waiting.Load() == 0 {
			grants, steps, idle = now, h.steps.Load(), 0
		}
		isForEver := h.rough && h.k.In != nil // another program kept a key, which has no other end
		if bound := free + time.Duration(h.steps.Load()-steps)*step; !isForEver && !assert.LessOrEqual(h, idle, bound, "it is free, and waited for") {
			return
		}
	}
}

// amongMishaps is a crowd while clocks are set back and queues are lost; roughly is one under all mishaps. The wires of every second kind fail too.
func amongMishaps(w *World, k Kind) {
	w.onMishaps(k, uint64(2*(len(k.Name)%2)), time.Duration(redistest.Rounds(20, 120))*time.Second)
}

func roughly(w *World, k Kind) {
	w.onMishaps(k, uint64(1+2*(len(k.Name)%2)), time.Duration(redistest.Rounds(20, 120))*time.Second)
}
