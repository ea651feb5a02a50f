// SPDX-License-Identifier: Apache-2.0

package semaphore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/locktest"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/scripts"
	"github.com/signalbox-go/signalbox/semaphore"
)

// kinds are the faults that a step can have.
func kinds() []redistest.Kind {
	return []redistest.Kind{
		redistest.CutBeforeRequest, redistest.CutAfterRequest, redistest.CutAfterReply, redistest.DelayRequest,
		redistest.DelayReply, redistest.SwallowRequest, redistest.SwallowReply,
	}
}

// P4, P5: whatever goes wrong at whatever step of taking permits, waiting for them, giving a part back and the rest, no
// more are out than there are, and all come back.
func TestPermitsComeBackWhateverGoesWrongAtWhateverStep(t *testing.T) {
	t.Parallel()
	const steps = 7 // requests of a use that are ours
	server := redistest.Start(t)
	ours := locktest.Runs(scripts.SessionHello, scripts.SemaphoreEnter, scripts.SemaphoreLook, scripts.SemaphoreLeave, scripts.SemaphoreSplit)
	for _, kind := range kinds() {
		for at := 1; at <= steps; at++ {
			t.Run(fmt.Sprint(kind, "/", at), func(t *testing.T) {
				t.Parallel()
				name := t.Name()
				v := newView(t, server, name)
				proxy := redistest.NewProxy(t, server.Addr())
				proxy.SetMatch(ours)
				struck := proxy.Arm(redistest.Fault{Kind: kind, At: at, Delay: 300 * time.Millisecond})
				other := semaphore.New(locktest.Session(t, server), name, 4)
				held := take(t, other, 2)
				stop := v.check(t, 4)
				struckOne := locktest.Session(t, proxy)
				w := semaphore.New(struckOne, name, 4).Weighted(t.Context())
				ctx, cancel := context.WithTimeout(t.Context(), redistest.Patience)
				defer cancel()
				var releaser sync.WaitGroup
				releaser.Go(func() { // as soon as somebody waits
					redistest.Became(redistest.Patience, func() bool {
						_, _, waiting, err := v.ask(ctx)
						return err == nil && waiting > 0 || ctx.Err() != nil
					})
					_ = held.Unlock()
				})
				for round := 0; round < 6 && !struck.HasFired(); round++ {
					require.NoError(t, w.Acquire(ctx, 3))
					w.Release(1)
					w.Release(2)
				}
				cancel()
				releaser.Wait()
				require.True(t, struck.HasFired())
				proxy.Disarm()
				proxy.CutAll()
				all := take(t, other, 4)
				require.NoError(t, all.Unlock())
				redistest.AwaitFor(t, bound, "nothing is left", func() bool { return v.out(t) == 0 && v.waiting(t) == 0 })
				redistest.AwaitFor(t, bound, "nothing is under way", func() bool { return locktest.Settling(struckOne) == 0 })
				stop()
			})
		}
	}
}

// P1, P4, P5: the same for permits that are passed on, where the server is asked whether they may be.
func TestPermitsThatArePassedOnComeBackWhateverGoesWrongAtWhateverStep(t *testing.T) {
	t.Parallel()
	const steps, capacity, uses = 12, 2, 4
	server := redistest.Start(t)
	ours := locktest.Runs(scripts.SemaphoreEnter, scripts.SemaphoreLook, scripts.SemaphoreLeave, scripts.SemaphoreYield)
	for _, kind := range kinds() {
		for at := 1; at <= steps; at += 1 + at/4 {
			t.Run(fmt.Sprint(kind, "/", at), func(t *testing.T) {
				t.Parallel()
				name := t.Name()
				v := newView(t, server, name)
				proxy := redistest.NewProxy(t, server.Addr())
				s := locktest.Session(t, proxy)
				other := semaphore.New(locktest.Session(t, server), name, capacity)
				require.NoError(t, take(t, semaphore.New(s, name, capacity), 1).Unlock())
				proxy.SetMatch(ours)
				proxy.ResetCount()
				struck := proxy.Arm(redistest.Fault{Kind: kind, At: at, Delay: 300 * time.Millisecond})
				stop := v.check(t, capacity)
				locktest.Together(t, 6, func(i int) error {
					sem := semaphore.New(s, name, capacity)
					if i == 0 {
						sem = other
					}
					for range uses {
						lease, err := sem.Acquire(long(t), 1)
						if err != nil {
							return err
						}
						works := time.NewTimer(12 * time.Millisecond) // of a budget of 20
						<-works.C
						if err := lease.Unlock(); err != nil && !errors.Is(err, signalbox.ErrUnconfirmed) && !errors.Is(err, signalbox.ErrLost) {
							return err
						}
					}
					return nil
				})
				t.Logf("struck: %v", struck.HasFired())
				proxy.Disarm()
				proxy.CutAll()
				redistest.AwaitFor(t, bound, "nothing is left", func() bool { return v.out(t) == 0 && v.waiting(t) == 0 })
				redistest.AwaitFor(t, bound, "nothing is under way", func() bool { return locktest.Settling(s) == 0 })
				all := take(t, other, capacity)
				require.NoError(t, all.Unlock())
				stop()
			})
		}
	}
}

// P1, P6: wires that are cut all the time change nothing but the speed.
func TestCountIsNeverAboveTheCapacityThoughWiresAreCut(t *testing.T) {
	t.Parallel()
	const name, capacity, users = "cut", 3, 8
	server := redistest.Start(t)
	v := newView(t, server, name)
	stop := v.check(t, capacity)
	proxies := []*redistest.Proxy{redistest.NewProxy(t, server.Addr()), redistest.NewProxy(t, server.Addr())}
	sessions := []*signalbox.Session{locktest.Session(t, proxies[0]), locktest.Session(t, proxies[1]), locktest.Session(t, server)}
	ctx, cancel := context.WithCancel(context.Background())
	served := make([]atomic.Int64, len(sessions))
	var cutter sync.WaitGroup
	cutter.Go(func() {
		again := time.NewTicker(50 * time.Millisecond)
		defer again.Stop()
		var known [2]int64
		for i := 0; ctx.Err() == nil; i = (i + 1) % 2 {
			<-again.C
			// However slow the machine is, somebody comes through between two cuts.
			if n := served[i].Load(); n > known[i] {
				known[i] = n
				proxies[i].CutAll()
			}
		}
	})
	locktest.Together(t, users, func(i int) error {
		sem := semaphore.New(sessions[i%len(sessions)], name, capacity)
		for range 25 {
			lease, err := sem.Acquire(long(t), 1+i%capacity)
			if err != nil {
				return err
			}
			served[i%len(sessions)].Add(1)
			if err := lease.Unlock(); err != nil && !errors.Is(err, signalbox.ErrUnconfirmed) && !errors.Is(err, signalbox.ErrLost) {
				return err
			}
		}
		return nil
	})
	cancel()
	cutter.Wait()
	most, looks := stop()
	t.Logf("%d looks, %d out at the most", looks, most)
	redistest.AwaitFor(t, bound, "all came back", func() bool { return v.out(t) == 0 && v.waiting(t) == 0 })
}

// P2, P9: a slot that is moved while permits are held and waited for, and a name that has braces.
func TestPermitsAreKeptWhileTheSlotIsMoved(t *testing.T) {
	t.Parallel()
	const name, capacity = "a{b}c", 3
	c := redistest.StartCluster(t, redistest.WithFailoverAfter(time.Minute))
	slot := c.Slot(t, locktest.Keys(name).Permits())
	require.Equal(t, slot, c.Slot(t, locktest.Keys(name).PermitsLine()))
	require.Equal(t, slot, c.Slot(t, locktest.Keys(name).PermitsLives()))
	here := semaphore.New(locktest.Session(t, c), name, capacity, signalbox.RenewedLease(15*time.Second))
	there := semaphore.New(locktest.Session(t, c), name, capacity)
	held := take(t, here, 3)
	got := make(chan result, 1)
	go func() {
		lease, err := there.Acquire(long(t), 2)
		got <- result{lease, err}
	}()
	for i := range 4 {
		owner := c.Owner(t, slot)
		for _, node := range c.Servers()[:3] {
			if node != owner {
				c.MoveSlot(t, slot, node)
				break
			}
		}
		if i == 1 {
			require.NoError(t, held.Unlock())
			lease := gets(t, got)
			require.NoError(t, lease.Unlock())
			held = take(t, here, 3)
		}
	}
	require.NoError(t, held.Err())
	require.NoError(t, held.Unlock())
	n, err := there.Available(t.Context())
	require.NoError(t, err)
	require.Equal(t, capacity, n)
}
