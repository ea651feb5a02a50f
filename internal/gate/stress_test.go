// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/clock"
)

// crowd is many goroutines on one lock, whose server always says yes.
type crowd struct {
	t     *testing.T
	table *Table

	order  sync.Mutex // over Join, so that the order of arrival is known
	serial int64

	inside atomic.Int64 // contenders and holders
	served atomic.Int64 // serial of the last one who was served
	passed atomic.Int64
}

// enter checks that nobody else contends or holds, and that nobody was overtaken.
func (c *crowd) enter(serial int64) {
	if n := c.inside.Add(1); n != 1 {
		c.t.Errorf("%d contend or hold", n)
	}
	if last := c.served.Swap(serial); last >= serial {
		c.t.Errorf("%d was served after %d", serial, last)
	}
}

func (c *crowd) leave() { c.inside.Add(-1) }

// one wants the lock once; it may lose patience.
func (c *crowd) one(r *rand.Rand, w *Waiter) {
	g := c.table.Use("key")
	c.order.Lock()
	c.serial++
	serial := c.serial
	contends := g.Join(w)
	c.order.Unlock()
	var turn Turn
	if !contends {
		impatient := make(chan struct{})
		if patience := r.IntN(60); patience < 20 {
			go func() {
				for range patience {
					runtime.Gosched()
				}
				close(impatient)
			}()
		}
		select {
		case turn = <-w.Turn:
		case <-impatient:
			if left, _ := g.Leave(w); left {
				c.table.Done(g, clock.Now())
				return
			}
			turn = <-w.Turn // handed on at once, by what follows
		}
	}
	c.enter(serial)
	for range 3 {
		runtime.Gosched() // so that a queue builds up
	}
	if !turn.Passed {
		if r.IntN(4) == 0 {
			c.leave()
			g.Quit()
			c.table.Done(g, clock.Now())
			return
		}
		g.Won(clock.Now(), nil)
	}
	c.giveUp(r, g)
}

// giveUp ends the hold in one of the ways there are.
func (c *crowd) giveUp(r *rand.Rand, g *Gate) {
	c.leave()
	defer c.table.Done(g, clock.Now())
	if r.IntN(8) == 0 {
		g.Lost()
		return
	}
	verdict := g.Pass(clock.Now(), terms, give)
	if verdict == Ask {
		g.Asked(clock.Now())
		verdict = g.Pass(clock.Now(), terms, give)
	}
	if verdict == Passed {
		c.passed.Add(1)
		return
	}
	g.Vacate()
	g.Vacated(clock.Instant{})
}

func TestNoTurnIsLostAndNobodyMeetsInACrowd(t *testing.T) {
	t.Parallel()
	const goroutines, rounds = 16, 1_500
	c := &crowd{t: t, table: NewTable()}
	var all sync.WaitGroup
	for i := range uint64(goroutines) {
		r, w := rand.New(rand.NewPCG(i, i)), waiter()
		all.Go(func() {
			for range rounds {
				c.one(r, w)
			}
		})
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	timer := time.NewTimer(30 * time.Second)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		t.Fatal("somebody waits for a turn that was lost")
	}
	require.Zero(t, c.table.Len())
	require.Equal(t, idle, c.table.Use("key").inState())
	require.Positive(t, c.passed.Load())
}
