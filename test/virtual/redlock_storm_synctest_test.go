// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/redlock"
)

// healWalk is a seed: processes want the lock "a" while its servers restart, with their data, without, or with old ones. In a rough walk
// anything else may happen, too. In a gentle one the first process holds the lock all the time, and never loses it.
type healWalk struct {
	*healServers

	random  *rand.Rand // draws what befalls the servers
	isRough bool
	options []signalbox.LockOption
	ends    time.Time // from then on no request is late
	sides   [5]side   // the last one takes the lock by force
	loads   []func()  // by server: loads the file that it wrote

	mu      sync.Mutex              // of what follows
	held    map[int]signalbox.Lease // by side: the leases to which P1 applies
	exempt  time.Time               // it does not to those that are granted before this: they may be taken by force
	lost    []time.Time             // by server: when it lost data
	last    uint64                  // the greatest token
	granted []int                   // the servers that granted the last lease
	at      time.Time               // when they did
}

// playHeals plays a seed.
func playHeals(t *testing.T, seed uint64) {
	t.Helper()
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	healBubble(t, 3+2*random.IntN(2), func(h *healServers) {
		w := &healWalk{healServers: h, random: random, isRough: random.IntN(2) == 0, ends: time.Now().Add(15 * time.Minute)}
		lease := []time.Duration{3 * time.Second, 9 * time.Second, 30 * time.Second}[random.IntN(3)]
		greatest, apart := lease, lease/3+2*time.Second
		if how := random.IntN(4); how < 2 { // heals come after the quarantine alone
			h.hides.Store(how == 0)
			greatest += time.Duration(how) * 10 * time.Second
			apart = max(apart, greatest+2*lease/3)
		}
		w.options = []signalbox.LockOption{signalbox.WithRenewedLease(lease), redlock.Fenced(), redlock.GreatestLease(greatest)}
		var all []*signalbox.Session
		for p := range w.sides {
			sessions, wires := h.process()
			w.sides[p], all = side{sessions, wires}, append(all, sessions...)
		}
		w.loads, w.lost, w.held = make([]func(), len(h.servers)), make([]time.Time, len(h.servers)), make(map[int]signalbox.Lease)
		for i := range h.servers {
			h.setAhead(i, time.Duration(random.IntN(5000)-2500)*time.Millisecond)
			w.delays(i)
		}
		first := redlock.New(w.sides[0].sessions, "a", w.options...)
		kept := h.mustLock(first)
		w.grants(0, kept)
		time.Sleep(3 * time.Second)
		require.Equal(h, len(h.servers), h.holds())
		var competing sync.WaitGroup
		for p := 1; p < 4; p++ {
			competing.Go(func() { w.competes(p, rand.New(rand.NewPCG(seed, uint64(p)))) })
		}
		for w.isRough && time.Now().Before(w.ends) {
			time.Sleep(time.Duration(random.IntN(9000)) * time.Millisecond)
			w.happens()
		}
		for time.Now().Before(w.ends) {
			w.saves(random.IntN(len(h.servers)))
			w.restarts(random.IntN(len(h.servers)), random.IntN(4), 300*time.Millisecond)
			time.Sleep(apart + time.Duration(random.IntN(5000))*time.Millisecond)
			require.NoError(h, kept.Err(), "servers restart one by one")
		}
		w.releases(0, kept)
		competing.Wait()
		for _, l := range slices.Concat(h.wires...) {
			l.latency.Store(0)
		}
		time.Sleep(2*greatest + time.Minute) // nothing is late any more, and no wire is silent
		h.requireNothing(all...)
		require.NoError(h, h.mustLock(first).Unlock())
	})
}

// delays lets some requests to a server arrive late, and their replies never: in a rough walk often heals.
func (w *healWalk) delays(i int) {
	f, late := w.servers[i].redis, w.delayHeals(i, 0).client // of its own
	w.delay.Store(nil)
	f.Server().SetPreHook(func(c *server.Peer, command string, args ...string) bool {
		if !strings.HasPrefix(command, "EVAL") {
			return w.saysItsLife(i, c, command)
		}
		f.SetTime(time.Now().Add(w.aheadOf(i)))
		chance, isKept := 300, !w.isRough && slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, w.sides[0].sessions[i].ID()) })
		if w.isRough && args[0] == proto.RedlockHealScript.SHA1 {
			chance = 3
		}
		if isKept || command == "EVAL" || time.Now().After(w.ends) || rand.N(chance) > 0 {
			return false
		}
		call := late.B().Arbitrary("EVALSHA").Args(args...).Build()
		time.AfterFunc(rand.N(4*time.Second), func() { _ = late.Do(w.Context(), call).Error() })
		c.Close()
		return true
	})
}

// competes lets a process ask for the lock, and hold it for a while, again and again.
func (w *healWalk) competes(p int, random *rand.Rand) {
	options := append(slices.Clone(w.options), signalbox.WithMaxHold(time.Duration(1+random.IntN(4))*time.Minute))
	for mu := redlock.New(w.sides[p].sessions, "a", options...); time.Now().Before(w.ends); {
		ctx, cancel := context.WithTimeout(w.Context(), time.Duration(1+random.IntN(60))*time.Second)
		lease, err := mu.Lock(ctx)
		cancel()
		if err != nil {
			continue
		}
		w.grants(p, lease)
		for until := time.Now().Add(time.Duration(1+random.IntN(90)) * time.Second); time.Now().Before(until) && lease.Err() == nil; {
			time.Sleep(500 * time.Millisecond)
		}
		w.releases(p, lease)
		time.Sleep(time.Duration(random.IntN(2)*random.IntN(10000)) * time.Millisecond)
	}
}

// grants checks P1 and P3 for a lease that was granted just now.
func (w *healWalk) grants(p int, lease signalbox.Lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	by, mustRise := []int(nil), false // it must if a server granted this lease and the last one, and has lost nothing since
	for i := range w.servers {
		if v := w.value(i); len(v) > 42 && v[20:42] == w.sides[p].sessions[i].ID() {
			by = append(by, i)
			mustRise = mustRise || slices.Contains(w.granted, i) && w.lost[i].Before(w.at)
		}
	}
	for other, its := range w.held {
		if its.Err() == nil && lease.Err() == nil {
			w.Errorf("P1: held by %d and %d at once", other, p)
		}
	}
	if mustRise && lease.Token() <= w.last {
		w.Errorf("P3: the token fell from %d to %d", w.last, lease.Token())
	}
	w.last, w.granted, w.at = max(w.last, lease.Token()), by, time.Now()
	if time.Now().After(w.exempt) {
		w.held[p] = lease
	}
}

func (w *healWalk) releases(p int, lease signalbox.Lease) {
	w.mu.Lock()
	delete(w.held, p)
	w.mu.Unlock()
	_ = lease.Unlock()
}

// saves lets a server write a file.
func (w *healWalk) saves(i int) {
	f := w.servers[i].redis
	f.SetTime(time.Now().Add(w.aheadOf(i)))
	values, ends := make(map[string]string), make(map[string]time.Time)
	for _, key := range f.Keys() {
		values[key], _ = f.Get(key)
		ends[key] = time.Now().Add(f.TTL(key))
	}
	w.loads[i] = func() {
		for key, value := range values {
			if left := time.Until(ends[key]); left > 0 {
				_ = f.Set(key, value)
				f.SetTTL(key, left)
			}
		}
	}
}

// restarts lets a server restart: with all its data, with those of its file, or without.
func (w *healWalk) restarts(i, how int, down time.Duration) {
	if how == 0 && !w.hides.Load() {
		w.lives[i].Add(1)
		return
	}
	w.mu.Lock()
	w.lost[i] = time.Now()
	w.mu.Unlock()
	if how == 1 && !w.hides.Load() && w.loads[i] != nil {
		time.AfterFunc(time.Millisecond, w.loads[i])
	}
	w.restart(i, 5*time.Millisecond+rand.N(down))
}

// happens lets one thing happen.
func (w *healWalk) happens() {
	random, i := w.random, w.random.IntN(len(w.servers))
	switch what, of := random.IntN(10), w.sides[random.IntN(len(w.sides))].wires; what {
	case 0, 1, 2, 3:
		w.restarts(i, what, 4*time.Second)
	case 4:
		w.saves(i)
	case 5, 6: // a process is cut off from a server, or stands still
		if what == 5 {
			of = of[i : i+1]
		}
		for _, l := range of {
			l.goSilent()
			time.AfterFunc(time.Duration(random.IntN(20000))*time.Millisecond, l.heal)
		}
	case 7:
		of[i].latency.Store(int64(time.Duration(random.IntN(800)) * time.Millisecond))
	case 8:
		w.servers[i].stepsClock(&w.ahead[i], -time.Duration(random.IntN(5000))*time.Millisecond)
	case 9: // the holder need not know before its lease ends
		w.mu.Lock()
		w.exempt, w.held = time.Now().Add(15*time.Second), make(map[int]signalbox.Lease)
		w.mu.Unlock()
		_ = redlock.New(w.sides[4].sessions, "a", w.options...).ForceUnlock(w.Context())
	}
}

// P1, P2, P3, P4: whatever happens to its servers, a lock has one holder, tokens rise, nothing is left, and a lease that all servers have
// survives if they restart one after the other.
func TestRedlockHeals_UnderRandomEvents(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		playHeals(t, seed)
	}
}

// Further seeds of it, one after the other.
func TestSoakRedlockHealsUnderRandomEvents(t *testing.T) {
	t.Parallel()
	for more, seed := locktest.Soak(t), locktest.Seed(t); more(); seed++ {
		playHeals(t, seed)
	}
}
