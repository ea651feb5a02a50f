// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"fmt"
	"sync"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/scripts"
)

const (
	// maxInFlight is how many calls of a combiner are under way at once before others wait to
	// go together. Few goroutines never wait; with many, one waits an eighth of a round trip on
	// average, and what the server spends on each call is spent once for all that go together.
	maxInFlight = 4
	// maxTogether bounds a call: 64 locks take a server some 0.1 ms.
	maxTogether = 64
)

// Combiner runs one script for many callers at once. The script takes a fixed number of keys and of
// arguments by caller, and answers an array with a reply by caller, or a bare reply for
// one.
//
// While few calls are under way a caller sends its own, on its own goroutine. Otherwise it
// queues, and goes with everybody else who queues as soon as a call has ended, on a goroutine
// that exists for that call. In a cluster, where keys have slots, everybody goes alone.
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
		queue    []*request
		closed   bool
	}
}

// request is one caller's part. Its channel has room for the outcome, so that a caller who has
// gone blocks nobody.
type request struct {
	keys []string
	args []string
	done chan Outcome
}

// NewCombiner answers a Combiner for script. It starts nothing.
func NewCombiner(runner *Runner, script *scripts.Script) *Combiner {
	c := &Combiner{runner: runner, script: script}
	c.idle.New = func() any { return &request{done: make(chan Outcome, 1)} }
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// Run answers the script's reply for keys, which are not written to. An error that the context ended leaves it unknown
// whether the script was executed, unless it says ErrNotSent.
func (c *Combiner) Run(ctx context.Context, keys []string, args ...string) (Reply, error) {
	c.mu.Lock()
	if c.mu.inFlight < maxInFlight || c.runner.Clustered() {
		c.mu.inFlight++
		c.mu.Unlock()
		reply, err := c.runner.Run(ctx, Call{Script: c.script, Keys: keys, Args: args})
		c.landed()
		return reply, err
	}
	r := c.idle.Get().(*request) //nolint:errcheck,forcetypeassert // nothing else is ever put
	r.keys, r.args = keys, args
	c.mu.queue = append(c.mu.queue, r)
	if c.mu.closed {
		c.refuseLocked()
	}
	c.mu.Unlock()
	select {
	case outcome := <-r.done:
		c.idle.Put(r) // nobody else has it any more; one that is abandoned is not used again
		return outcome.Reply, outcome.Err
	case <-ctx.Done():
		if c.unqueue(r) {
			return Reply{}, fmt.Errorf("%w: %w", ErrNotSent, ctx.Err())
		}
		return Reply{}, ctx.Err()
	}
}

// Close ends the calls under way that go for many, and waits for them. Who queues is answered
// ErrClosed.
func (c *Combiner) Close() {
	c.mu.Lock()
	c.mu.closed = true
	c.refuseLocked()
	c.mu.Unlock()
	c.cancel()
	c.wg.Wait()
}

func (c *Combiner) refuseLocked() {
	for _, r := range c.mu.queue {
		r.done <- Outcome{Err: errs.ErrClosed}
	}
	c.mu.queue = nil
}

// landed takes note that a call has ended, and lets those go who queued meanwhile.
func (c *Combiner) landed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.inFlight--
	if len(c.mu.queue) == 0 || c.mu.closed { // closed: nobody is left in the queue
		return
	}
	n := min(len(c.mu.queue), maxTogether)
	together := c.mu.queue[:n:n]
	c.mu.queue = c.mu.queue[n:]
	if len(c.mu.queue) == 0 {
		c.mu.queue = nil // the array belongs to those who go
	}
	c.mu.inFlight++
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

// unqueue takes r out of the queue, and reports whether it was there.
func (c *Combiner) unqueue(r *request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, queued := range c.mu.queue {
		if queued == r {
			c.mu.queue = append(c.mu.queue[:i:i], c.mu.queue[i+1:]...)
			return true
		}
	}
	return false
}
