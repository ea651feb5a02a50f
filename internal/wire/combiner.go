// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/scripts"
)

const (
	// maxInFlight is how many calls of a combiner are under way before callers wait to be sent
	// together. The server's work for a call is then done once for all of them.
	maxInFlight = 4
	// maxTogether bounds a call: 64 locks take a server some 0.1 ms.
	maxTogether = 64
)

// Combiner runs one script for many callers at once. The script takes a fixed number of keys and of
// arguments by caller, and answers an array with a reply by caller, or a bare reply for
// one.
//
// While few calls are under way a caller sends its own, on its own goroutine. Otherwise it waits in
// a queue until one of the calls ends. The queue is then sent together, on a goroutine that exists
// for that call. If the server is far, the queue is sent after a tenth of a round trip at the
// latest. In a cluster, where keys have slots, each caller is sent alone.
type Combiner struct {
	runner *Runner
	script *scripts.Script
	ctx    context.Context //nolint:containedctx // of the calls that go for many; ends at Close
	cancel context.CancelFunc
	wg     sync.WaitGroup // of those calls
	idle   sync.Pool      // of *request

	mu struct {
		sync.Mutex
		inFlight int
		queue    queue
		company  company
		closed   bool
	}
}

// NewCombiner answers a Combiner for script. It starts nothing.
func NewCombiner(runner *Runner, script *scripts.Script) *Combiner {
	c := &Combiner{runner: runner, script: script}
	c.idle.New = func() any { return &request{done: make(chan Outcome, 1)} }
	c.ctx, c.cancel = errs.WithCancel(context.Background(), errs.ErrClosed)
	return c
}

// Run answers the script's reply for keys, which are not written to. An error that the context ended leaves it unknown
// whether the script was executed, unless it says ErrNotSent.
func (c *Combiner) Run(ctx context.Context, keys []string, args ...string) (Reply, error) {
	now := clock.Now().Mono()
	c.mu.Lock()
	if c.mu.inFlight < maxInFlight || c.runner.Clustered() {
		c.sentLocked(now)
		c.mu.Unlock()
		reply, err := c.runner.Run(ctx, Call{Script: c.script, Keys: keys, Args: args})
		c.landed()
		return reply, err
	}
	r := c.idle.Get().(*request) //nolint:errcheck,forcetypeassert // nothing else is ever put
	r.keys, r.args, r.since = keys, args, now
	c.mu.queue.push(r)
	c.armLocked(now)
	if c.mu.closed {
		c.refuseLocked()
	}
	c.mu.Unlock()
	select {
	case outcome := <-r.done:
		c.idle.Put(r) // only this caller has it; a request that was abandoned after it was sent is not used again
		return outcome.Reply, outcome.Err
	case <-ctx.Done():
		if c.giveUp(r) {
			c.idle.Put(r) // it left the queue, so nothing is ever sent to done
			return Reply{}, fmt.Errorf("%w: %w", ErrNotSent, ctx.Err())
		}
		return Reply{}, ctx.Err()
	}
}

// giveUp removes r from the queue, and reports whether it was there. Requests are removed under the
// lock. The goroutine that removes one decides on it: either it is sent and gets an outcome, or its
// caller gives up.
func (c *Combiner) giveUp(r *request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.queue.remove(r)
}

// Close ends the calls under way that were sent for several callers, and waits for them. Callers
// that wait in the queue get ErrClosed.
func (c *Combiner) Close() {
	c.mu.Lock()
	c.mu.closed = true
	c.refuseLocked()
	c.mu.company.stop()
	c.mu.Unlock()
	c.cancel()
	c.wg.Wait()
}

func (c *Combiner) refuseLocked() {
	for c.mu.queue.size > 0 {
		c.mu.queue.pop().done <- Outcome{Err: errs.ErrClosed}
	}
}

// sentLocked records that a call is being sent.
func (c *Combiner) sentLocked(now time.Duration) {
	if c.mu.inFlight == 0 {
		c.mu.company.moved = now
	}
	c.mu.inFlight++
}

// landed records that a call has ended, and sends the requests that wait in the queue.
func (c *Combiner) landed() {
	now := clock.Now().Mono()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.inFlight--
	c.mu.company.moved = now
	c.sendQueueLocked(now)
	c.armLocked(now)
}

// sendQueueLocked sends the first requests of the queue together, on a goroutine of their own.
// After Close the queue is empty, so no goroutine starts while Close waits for them.
func (c *Combiner) sendQueueLocked(now time.Duration) {
	n := min(c.mu.queue.size, maxTogether)
	if n == 0 {
		return
	}
	together := make([]*request, n)
	for i := range together {
		together[i] = c.mu.queue.pop()
	}
	c.sentLocked(now)
	c.wg.Go(func() {
		c.send(together)
		c.landed()
	})
}

// send runs the script for all of them and hands out the replies.
func (c *Combiner) send(together []*request) {
	call := Call{Script: c.script, Keys: make([]string, 0, len(together)*len(together[0].keys)), Args: make([]string, 0, len(together)*len(together[0].args))}
	for _, r := range together {
		call.Keys = append(call.Keys, r.keys...)
		call.Args = append(call.Args, r.args...)
	}
	replies, err := c.runner.Run(c.ctx, call)
	for i, r := range together {
		outcome := Outcome{Err: err}
		switch {
		case err == nil && len(together) == 1:
			outcome.Reply = replies
		case err == nil:
			outcome.Reply, outcome.Err = replies.Part(i)
		}
		r.done <- outcome
	}
}
