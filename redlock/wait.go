// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/signalbox-go/signalbox/internal/acquire/local"
	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/dispatch"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

const (
	// firstPause and lastPause bound the pause after a vote without a winner, or that servers failed. It is
	// drawn from the duration of the vote, or firstPause, doubled by each vote in a row: five callers that
	// try at once meet again ever less often.
	firstPause, lastPause = time.Millisecond, time.Second
	// longestWait is how long the messages of a quorum are waited for. Each server is looked at about once a second
	// meanwhile, so this is for those that died while they were waited for.
	longestWait = 5 * time.Second
	// grace is how long, after the first server was heard to be free, the others are waited for.
	grace = 20 * time.Millisecond
)

// alarm is a wake-up by the session's timers.
type alarm struct {
	entry timers.Timer
	c     chan struct{}
}

// Fire implements timers.Event.
func (a *alarm) Fire() {
	select {
	case a.c <- struct{}{}:
	default:
	}
}

// contention is one call of Lock, and what it knows between its votes. It is a local.Source and its own
// local.Ticket: no other goroutine uses either, except for Ready and Ended.
type contention struct {
	lock   *Lock
	queue  *local.Queue
	waits  []*dispatch.Wait // by member; nil until there is something to wait for
	alarm  *alarm           // nil until there is a pause
	last   summary          // of the last vote
	sent   clock.Instant    // when the last vote began
	fails  int              // votes in a row without a known winner
	before string           // the attempt before, which may still stand somewhere for a moment
	isHeld atomic.Bool      // others had the lock, or a part of it, at the last vote
	waited bool             // the first vote was not won

	won   *ballot // nil if none was
	token wire.Stamp
}

// Ready implements local.Source.
func (c *contention) Admit(int) error { return c.lock.ready() }

// Ticket implements local.Source.
func (c *contention) NewTicket() (local.Ticket, error) { return c, nil }

// Enter implements local.Ticket: one vote.
func (c *contention) Join(ctx context.Context) (granted bool, err error) {
	if err := c.lock.ready(); err != nil {
		return false, err
	}
	if ctx.Err() != nil {
		return false, c.ended(ctx)
	}
	b := c.lock.ask(true) //nolint:contextcheck // what is on its way when ctx ends is settled
	token, err := b.elected(ctx)
	if err == nil {
		c.won, c.token = b, token
		c.isHeld.Store(false)
		return true, nil
	}
	return false, c.lost(ctx, b, err)
}

// Wait implements local.Ticket: it votes whenever that may be worth it.
func (c *contention) Wait(ctx context.Context) error {
	c.waited = true
	for {
		if err := c.rest(ctx); err != nil {
			return err
		}
		if granted, err := c.Join(ctx); granted || err != nil {
			return err
		}
	}
}

// Begin implements local.Ticket.
func (c *contention) BeginHold(_ context.Context, err error) (hold.Lease, error) {
	defer c.close()
	if c.won == nil {
		return hold.Lease{}, err
	}
	lease, err := c.lock.hold(c.queue, c.won, c.token)
	if err == nil && c.waited {
		lease.SetQueued()
	}
	return lease, err
}

// Leave implements local.Ticket.
func (c *contention) Leave() {
	c.close()
	if c.won != nil {
		c.won.end()
	}
}

// Ended implements local.Ticket.
func (c *contention) Ended(ctx context.Context) error {
	if c.isHeld.Load() {
		return errs.WhileHeld(errs.Ended(ctx))
	}
	return errs.Ended(ctx)
}

func (c *contention) close() {
	if c.alarm != nil {
		c.lock.group.members[0].Timers.Cancel(&c.alarm.entry)
	}
	for _, w := range c.waits {
		if w != nil {
			w.Close()
		}
	}
}

// lost notes how vote b ended, without a quorum, and returns the error to give up with, or nil for another vote.
func (c *contention) lost(ctx context.Context, b *ballot, err error) error {
	if ctx.Err() == nil { // else the vote was cut short: what was known before it still is
		c.last = b.summary(c.before)
		c.before, c.sent = b.attempt, b.sent
		c.isHeld.Store(len(c.last.held) > 0)
	}
	switch {
	case errors.Is(err, errs.ErrClosed):
		return err
	case ctx.Err() != nil:
		return c.ended(ctx)
	}
	return c.last.final()
}

// rest returns when the next vote is due, or the error to give up with.
func (c *contention) rest(ctx context.Context) error {
	if c.last.rivals == 1 {
		c.fails = 0
		return c.hear(ctx)
	}
	window := min(max(clock.Now().Mono()-c.sent.Mono(), firstPause)<<min(c.fails, 10), lastPause)
	c.fails++
	return c.pause(ctx, window/4+rand.N(window), 0)
}

// ended returns the error of a context that has ended, with what is known of the lock.
func (c *contention) ended(ctx context.Context) error {
	err := errs.Ended(ctx)
	if len(c.last.held) > 0 {
		err = errs.WhileHeld(err)
	}
	return errs.Join(append([]error{err}, c.last.failures...)...)
}

// hear waits until enough servers on which the lock was held are reported free for a quorum.
func (c *contention) hear(ctx context.Context) error {
	if c.waits == nil {
		c.waits = make([]*dispatch.Wait, len(c.lock.members))
	}
	for i, v := range c.last.held {
		if c.waits[i] == nil {
			m := c.lock.members[i]
			c.waits[i] = m.Dispatch.Wait(dispatch.Target{
				Channel: c.lock.base.Names.Unlocked, Key: c.lock.keys[0], Poll: scripts.RedlockPoll, WaiterID: m.ID(),
			})
		}
		c.waits[i].FoundHeld(v.left)
	}
	need := max(majority(len(c.lock.members))-c.last.granted, 1)
	return c.pause(ctx, longestWait, min(need, len(c.last.held)))
}

// pause waits for so long; or, if need is not 0, until that many servers are heard to be free, and a moment after the
// first of them at the longest.
func (c *contention) pause(ctx context.Context, d time.Duration, need int) error {
	timers := c.lock.group.members[0].Timers
	if c.alarm == nil {
		c.alarm = &alarm{c: make(chan struct{}, 1)}
		c.alarm.entry.Init(c.alarm)
	}
	timers.Cancel(&c.alarm.entry)
	select {
	case <-c.alarm.c: // of the pause before
	default:
	}
	timers.Schedule(&c.alarm.entry, d)
	cases := []reflect.SelectCase{received(ctx.Done()), received(c.lock.group.closing), received(c.alarm.c)}
	if need > 0 {
		for i := range c.last.held {
			cases = append(cases, received(c.waits[i].C))
		}
	}
	for heard := 0; ; {
		switch chosen, _, _ := reflect.Select(cases); chosen {
		case 0:
			return c.ended(ctx)
		case 1, 2:
			return nil // the next try finds the session closed
		default:
			cases[chosen].Chan = reflect.Value{} // once each
			heard++
			if heard >= need {
				return nil
			}
			timers.Schedule(&c.alarm.entry, grace)
		}
	}
}

func received[T any](c <-chan T) reflect.SelectCase {
	return reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(c)}
}

// summary is what the votes of a ballot come to.
type summary struct {
	n, granted int
	held       map[int]vote // the servers on which others have the lock
	rivals     int          // how many those are
	doubles    int          // servers that gave the same attempt to another session
	failures   []error      // of the others
	finals     int          // failures that waiting does not mend
}

// summary returns the votes so far. The attempt before, of the same caller, does not count as a rival.
func (b *ballot) summary(before string) summary {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := summary{n: len(b.mu.seats), held: make(map[int]vote)}
	rivals := make(map[string]struct{})
	for i := range b.mu.seats {
		v := b.mu.seats[i].vote
		switch {
		case v.choice == granted:
			s.granted++
		case v.choice == held && v.rival == b.attempt:
			s.doubles++
		case v.choice == held:
			s.held[i] = v
			if v.rival != before {
				rivals[v.rival] = struct{}{}
			}
		case v.err != nil:
			s.failures = append(s.failures, b.lock.number(i, v.err))
			if wire.Judge(v.err) == wire.Final {
				s.finals++
			}
		}
	}
	s.rivals = len(rivals)
	return s
}

// final returns why no later vote can be won, or nil.
func (s summary) final() error {
	switch {
	case s.doubles > 0 && s.granted+s.doubles >= majority(s.n):
		return fmt.Errorf("%w: several of the sessions go to the same server, which has one vote: there is no quorum", errs.ErrBadOption)
	case s.n-s.finals < majority(s.n):
		return errs.Join(s.failures...)
	}
	return nil
}

// explain returns the error of a vote that was not won and is not repeated.
func (s summary) explain(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, errs.ErrClosed):
		return err
	case ctx.Err() != nil:
		return errs.Ended(ctx)
	case s.final() != nil:
		return s.final()
	case len(s.held) > 0:
		return errs.Join(append([]error{errs.ErrHeld}, s.failures...)...)
	case len(s.failures) > 0:
		return errs.Join(s.failures...)
	}
	return err
}
