// SPDX-License-Identifier: Apache-2.0

package history_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

const (
	life = 300 * time.Millisecond
	// undone is how long the undoing of a call takes at the most: 8 s on a wire that is found dead, and more on a busy machine.
	undone = redistest.Patience
	// crashed is when the hold of a client that died is over: that of a waiter lasts for what it counted
	// as living for, whatever its lease.
	crashed = 4 * time.Second
)

// A history with fewer holders, or fewer faults, shows nothing.
const (
	enoughTaken  = 15
	enoughGhosts = 5
)

// recorder has the history.
type recorder struct {
	begun  time.Time
	ghosts atomic.Int64

	mu struct {
		sync.Mutex
		history []porcupine.Operation
		counts  map[kind]int
	}
}

func newRecorder() *recorder {
	r := &recorder{begun: time.Now()}
	r.mu.counts = make(map[kind]int)
	return r
}

func (r *recorder) now() int64 { return int64(time.Since(r.begun)) }

func (r *recorder) add(o op, from, to int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.history = append(r.mu.history, porcupine.Operation{ClientId: o.who, Input: o, Call: from, Return: to})
	r.mu.counts[o.kind]++
}

// shows reports whether the history has enough in it to show something: holders, faults.
func (r *recorder) shows() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.counts[took] >= enoughTaken && r.mu.counts[mayTake] >= enoughGhosts
}

// ghost adds what a call of unknown outcome may have done.
func (r *recorder) ghost(from, to int64) {
	who := -int(r.ghosts.Add(1))
	r.add(op{kind: mayTake, who: who}, from, to)
	r.add(op{kind: mayLeave, who: who}, from, to)
}

// client is one session with a wire of its own.
type client struct {
	*recorder

	who     int
	kind    locktest.Primitive
	name    string // the name of the lock
	proxy   *redistest.Proxy
	session *signalbox.Session
	kinds   []redistest.FaultKind
}

// run makes n calls, and more until the history shows something: on a busy machine most calls give up. It dies early, now and then, while it holds the lock, and returns whether
// it did.
func (c *client) run(n int) (died bool, err error) {
	for i := 0; i < n || !c.shows() && i < 10*n; i++ {
		lease, from, err := c.take()
		if err != nil || lease == (signalbox.Lease{}) {
			if err != nil {
				return false, err
			}
			continue
		}
		if rand.N(40) == 0 {
			c.proxy.HalfOpenAll()
			c.proxy.Refuse()
			at := c.now()
			begun := at
			if lease.Err() != nil {
				begun = from // it was lost before, on a machine that stood still, without a check
			}
			c.add(op{ended, c.who, lease.Token()}, begun, at+int64(crashed))
			return true, nil
		}
		if err := c.release(lease, from); err != nil {
			return false, err
		}
	}
	return false, nil
}

// strike lets the next request fail, mostly not.
func (c *client) strike() func() bool {
	if rand.N(4) > 0 {
		return func() bool { return false }
	}
	armed := c.proxy.Arm(redistest.Fault{Kind: c.kinds[rand.N(len(c.kinds))], Delay: rand.N(60 * time.Millisecond)})
	return func() bool {
		c.proxy.Disarm()
		return armed.HasFired()
	}
}

// settled waits until nothing that the client did is under way.
func (c *client) resolved() error {
	if !redistest.PollUntil(undone, func() bool { return locktest.Undoing(c.session) == 0 }) {
		return errors.New("what is unknown was not settled")
	}
	return nil
}

// take calls Lock or TryLock, and adds the result. from is when the call began.
func (c *client) take() (lease signalbox.Lease, from int64, err error) {
	lock := c.kind.New(c.session, c.name, signalbox.WithRenewedLease(life))
	ctx, cancel := context.WithTimeout(context.Background(), rand.N(2*life))
	defer cancel()
	struck := c.strike()
	from = c.now()
	if rand.N(3) == 0 {
		lease, err = lock.TryLock(ctx)
	} else {
		lease, err = lock.Lock(ctx)
	}
	to := c.now()
	switch {
	case err == nil:
		c.add(op{took, c.who, lease.Token()}, from, to)
	case errors.Is(err, signalbox.ErrHeld):
		c.add(op{kind: refused, who: c.who}, from, to)
	}
	if fired := struck(); err == nil && !fired {
		return lease, from, nil
	}
	if err := c.resolved(); err != nil {
		return lease, from, fmt.Errorf("take: %w", err)
	}
	c.ghost(from, c.now())
	return lease, from, nil
}

// release unlocks, and records what Unlock returned.
func (c *client) release(lease signalbox.Lease, took int64) error {
	struck := c.strike()
	defer struck()
	from := c.now()
	err := lease.Unlock()
	switch {
	case err == nil:
		c.add(op{gave, c.who, lease.Token()}, from, c.now())
	case errors.Is(err, signalbox.ErrLost):
		// It is over here. If the server still has it, it is released in the background.
		if err := c.resolved(); err != nil {
			return fmt.Errorf("lost: %w", err)
		}
		c.add(op{ended, c.who, lease.Token()}, took, c.now())
	case errors.Is(err, signalbox.ErrUnconfirmed):
		if err := c.resolved(); err != nil {
			return fmt.Errorf("release: %w", err)
		}
		c.add(op{ended, c.who, lease.Token()}, from, c.now())
	default:
		return err
	}
	return nil
}

func (g *game) newClient(t *testing.T, r *recorder, who int, name string) *client {
	t.Helper()
	proxy := redistest.NewProxy(t, g.server.Addr())
	return &client{r, who, g.side(who), name, proxy, locktest.Session(t, proxy), g.faults}
}
