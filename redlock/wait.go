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
type pauseTimer struct {
	entry timers.Timer
	c     chan struct{}
}

// Fire implements timers.Event.
func (a *pauseTimer) Fire() {
	select {
	case a.c <- struct{}{}:
	default:
	}
}

// contention is one call of Lock, and what it knows between its votes. It is a local.Source and its own
// local.Ticket: no other goroutine uses either, except for Ready and Ended.
type retryTicket struct {
	lock      *Lock
	queue     *local.Queue
	waits     []*dispatch.Wait // by member; nil until there is something to wait for
	timer     *pauseTimer      // nil until there is a pause
	lastVotes summary          // of the last vote
	sent      clock.Instant    // when the last vote began
	losses    int              // votes in a row without a known winner
	previous  string           // the attempt before, which may still stand somewhere for a moment
	isHeld    atomic.Bool      // others had the lock, or a part of it, at the last vote
	waited    bool             // the first vote was not won

	wonBallot *ballot // nil if none was
	token     wire.Stamp
}

// Ready implements local.Source.
func (c *retryTicket) Admit(int) error { return c.lock.ready() }

// Ticket implements local.Source.
func (c *retryTicket) NewTicket() (local.Ticket, error) { return c, nil }

// Enter implements local.Ticket: one vote.
func (c *retryTicket) Join(ctx context.Context) (granted bool, err error) {
	if err := c.lock.ready(); err != nil {
		return false, err
	}
	if ctx.Err() != nil {
		return false, c.endedErr(ctx)
	}
	b := c.lock.startBallot(true) //nolint:contextcheck // what is on its way when ctx ends is settled
	token, err := b.awaitOutcome(ctx)
	if err == nil {
		c.wonBallot, c.token = b, token
		c.isHeld.Store(false)
		return true, nil
	}
	return false, c.ballotLost(ctx, b, err)
}

// Wait implements local.Ticket: it votes whenever that may be worth it.
func (c *retryTicket) Wait(ctx context.Context) error {
	c.waited = true
	for {
		if err := c.awaitNextVote(ctx); err != nil {
			return err
		}
		if granted, err := c.Join(ctx); granted || err != nil {
			return err
		}
	}
}

// Begin implements local.Ticket.
func (c *retryTicket) BeginHold(_ context.Context, err error) (hold.Lease, error) {
	defer c.close()
	if c.wonBallot == nil {
		return hold.Lease{}, err
	}
	lease, err := c.lock.makeHold(c.queue, c.wonBallot, c.token)
	if err == nil && c.waited {
		lease.SetQueued()
	}
	return lease, err
}

// Leave implements local.Ticket.
func (c *retryTicket) Leave() {
	c.close()
	if c.wonBallot != nil {
		c.wonBallot.abandon()
	}
}

// Ended implements local.Ticket.
func (c *retryTicket) Ended(ctx context.Context) error {
	if c.isHeld.Load() {
		return errs.WhileHeld(errs.Ended(ctx))
	}
	return errs.Ended(ctx)
}

func (c *retryTicket) close() {
	if c.timer != nil {
		c.lock.group.members[0].Timers.Cancel(&c.timer.entry)
	}
	for _, w := range c.waits {
		if w != nil {
			w.Close()
		}
	}
}

// lost notes how vote b ended, without a quorum, and returns the error to give up with, or nil for another vote.
func (c *retryTicket) ballotLost(ctx context.Context, b *ballot, err error) error {
	if ctx.Err() == nil { // else the vote was cut short: what was known before it still is
		c.lastVotes = b.summary(c.previous)
		c.previous, c.sent = b.attempt, b.sent
		c.isHeld.Store(len(c.lastVotes.held) > 0)
	}
	switch {
	case errors.Is(err, errs.ErrClosed):
		return err
	case ctx.Err() != nil:
		return c.endedErr(ctx)
	}
	return c.lastVotes.final()
}

// rest returns when the next vote is due, or the error to give up with.
func (c *retryTicket) awaitNextVote(ctx context.Context) error {
	if c.lastVotes.rivals == 1 {
		c.losses = 0
		return c.awaitMessages(ctx)
	}
	window := min(max(clock.Now().Mono()-c.sent.Mono(), firstPause)<<min(c.losses, 10), lastPause)
	c.losses++
	return c.pause(ctx, window/4+rand.N(window), 0)
}

// ended returns the error of a context that has ended, with what is known of the lock.
func (c *retryTicket) endedErr(ctx context.Context) error {
	err := errs.Ended(ctx)
	if len(c.lastVotes.held) > 0 {
		err = errs.WhileHeld(err)
	}
	return errs.Join(append([]error{err}, c.lastVotes.failures...)...)
}

// hear waits until enough servers on which the lock was held are reported free for a quorum.
func (c *retryTicket) awaitMessages(ctx context.Context) error {
	if c.waits == nil {
		c.waits = make([]*dispatch.Wait, len(c.lock.members))
	}
	for i, v := range c.lastVotes.held {
		if c.waits[i] == nil {
			m := c.lock.members[i]
			c.waits[i] = m.Dispatch.Wait(dispatch.Target{
				Channel: c.lock.base.Names.Unlocked, Key: c.lock.keys[0], Poll: scripts.RedlockPoll, WaiterID: m.ID(),
			})
		}
		c.waits[i].FoundHeld(v.left)
	}
	need := max(majority(len(c.lock.members))-c.lastVotes.granted, 1)
	return c.pause(ctx, longestWait, min(need, len(c.lastVotes.held)))
}

// pause waits for so long; or, if need is not 0, until that many servers are heard to be free, and a moment after the
// first of them at the longest.
func (c *retryTicket) pause(ctx context.Context, d time.Duration, need int) error {
	timers := c.lock.group.members[0].Timers
	if c.timer == nil {
		c.timer = &pauseTimer{c: make(chan struct{}, 1)}
		c.timer.entry.Init(c.timer)
	}
	timers.Cancel(&c.timer.entry)
	select {
	case <-c.timer.c: // of the pause before
	default:
	}
	timers.Schedule(&c.timer.entry, d)
	cases := []reflect.SelectCase{recvCase(ctx.Done()), recvCase(c.lock.group.closing), recvCase(c.timer.c)}
	if need > 0 {
		for i := range c.lastVotes.held {
			cases = append(cases, recvCase(c.waits[i].C))
		}
	}
	for freed := 0; ; {
		switch chosen, _, _ := reflect.Select(cases); chosen {
		case 0:
			return c.endedErr(ctx)
		case 1, 2:
			return nil // the next try finds the session closed
		default:
			cases[chosen].Chan = reflect.Value{} // once each
			freed++
			if freed >= need {
				return nil
			}
			timers.Schedule(&c.timer.entry, grace)
		}
	}
}

func recvCase[T any](c <-chan T) reflect.SelectCase {
	return reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(c)}
}

// summary is what the votes of a ballot come to.
type summary struct {
	servers, granted int
	held             map[int]vote // the servers on which others have the lock
	rivals           int          // how many those are
	duplicates       int          // servers that gave the same attempt to another session
	failures         []error      // of the others
	finalFailures    int          // failures that waiting does not mend
}

// summary returns the votes so far. The attempt before, of the same caller, does not count as a rival.
func (b *ballot) summary(previous string) summary {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := summary{servers: len(b.mu.servers), held: make(map[int]vote)}
	rivals := make(map[string]struct{})
	for i := range b.mu.servers {
		v := b.mu.servers[i].vote
		switch {
		case v.result == granted:
			s.granted++
		case v.result == held && v.rival == b.attempt:
			s.duplicates++
		case v.result == held:
			s.held[i] = v
			if v.rival != previous {
				rivals[v.rival] = struct{}{}
			}
		case v.err != nil:
			s.failures = append(s.failures, b.lock.withNumber(i, v.err))
			if wire.Judge(v.err) == wire.Final {
				s.finalFailures++
			}
		}
	}
	s.rivals = len(rivals)
	return s
}

// final returns why no later vote can be won, or nil.
func (s summary) final() error {
	switch {
	case s.duplicates > 0 && s.granted+s.duplicates >= majority(s.servers):
		return fmt.Errorf("%w: several of the sessions go to the same server, which has one vote: there is no quorum", errs.ErrBadOption)
	case s.servers-s.finalFailures < majority(s.servers):
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
