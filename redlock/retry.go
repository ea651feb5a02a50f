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

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/notify"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/waitroom"
	"github.com/signalbox-go/signalbox/internal/wire"
)

const (
	// firstPause and lastPause bound the pause after a vote without a winner, or that servers failed. It is
	// drawn from the duration of the vote, or firstPause, doubled by each vote in a row: five callers that
	// try at once collide ever less often.
	firstPause, lastPause = time.Millisecond, time.Second
	// longestWait is how long the messages of a quorum are waited for. Each server is polled about once a second
	// meanwhile, so this is for servers that died while they were waited for.
	longestWait = 5 * time.Second
	// grace is how long the other servers are waited for after the first one reported that it is free.
	grace = 20 * time.Millisecond
)

// retryTicket is one call of Lock, which votes until a vote is won, and what it knows between its votes. It is a
// waitroom.TicketSource and its own waitroom.Ticket: no other goroutine uses either, except for Admit and Ended.
type retryTicket struct {
	lock      *Lock
	waits     []*notify.Wait // by member; nil until the first wait
	lastVotes summary        // the summary of the last ballot
	sent      timers.Instant // when the last vote began
	losses    int            // the number of votes in a row without a known winner
	previous  string         // the previous attempt, which a server may still have for a moment
	isHeld    atomic.Bool    // others had the lock, at some server, at the last vote
	waited    bool           // the first vote was not won

	wonBallot *ballot // nil if no ballot was won
	token     wire.Stamp
}

// Admit implements waitroom.TicketSource.
func (t *retryTicket) Admit(int) error { return t.lock.ready() }

// NewTicket implements waitroom.TicketSource.
func (t *retryTicket) NewTicket(any) (waitroom.Ticket, error) { return t, nil }

// MayShare implements waitroom.TicketSource: holds are not shared.
func (*retryTicket) MayShare(context.Context, hold.Lease) bool { return false }

// Join implements waitroom.Ticket: one vote.
func (t *retryTicket) Join(ctx context.Context) (granted bool, err error) {
	if err := t.lock.ready(); err != nil {
		return false, err
	}
	if ctx.Err() != nil {
		return false, t.endedErr(ctx)
	}
	b := t.lock.startBallot(true) //nolint:contextcheck // what is on its way when ctx ends is undone
	token, err := b.awaitOutcome(ctx)
	if err == nil {
		t.wonBallot, t.token = b, token
		t.isHeld.Store(false)
		return true, nil
	}
	return false, t.ballotLost(ctx, b, err)
}

// Wait implements waitroom.Ticket: it votes whenever that may be worth it.
func (t *retryTicket) Wait(ctx context.Context) error {
	t.waited = true
	for {
		if err := t.awaitNextVote(ctx); err != nil {
			return err
		}
		if granted, err := t.Join(ctx); granted || err != nil {
			return err
		}
	}
}

// makeHold ends the ticket, whose wait ended with err, and makes the hold of the vote that was won, or returns why none was.
func (t *retryTicket) makeHold(q *waitroom.Room, err error) (hold.Lease, error) {
	defer t.close()
	if t.wonBallot == nil {
		return hold.Lease{}, err
	}
	lease, err := t.lock.makeHold(q, t.wonBallot, t.token)
	if err == nil && t.waited {
		lease.SetQueued()
	}
	return lease, err
}

// Leave implements waitroom.Ticket.
func (t *retryTicket) Leave() {
	t.close()
	if t.wonBallot != nil {
		t.wonBallot.abandon()
	}
}

// Ended implements waitroom.Ticket.
func (t *retryTicket) Ended(ctx context.Context) error {
	if t.isHeld.Load() {
		return errs.WhileHeld(errs.Ended(ctx))
	}
	return errs.Ended(ctx)
}

func (t *retryTicket) close() {
	for _, w := range t.waits {
		if w != nil {
			w.Close()
		}
	}
}

// ballotLost records how ballot b ended, without a quorum, and returns the error to give up with, or nil for another vote.
func (t *retryTicket) ballotLost(ctx context.Context, b *ballot, err error) error {
	if ctx.Err() == nil { // otherwise the vote was cut short, and the last one still counts
		t.lastVotes = b.summary(t.previous)
		t.previous, t.sent = b.attempt, b.sent
		t.isHeld.Store(len(t.lastVotes.held) > 0)
	}
	switch {
	case errors.Is(err, errs.ErrClosed):
		return err
	case ctx.Err() != nil:
		return t.endedErr(ctx)
	}
	return t.lastVotes.final()
}

// awaitNextVote returns when the next vote is due, or the error to give up with.
func (t *retryTicket) awaitNextVote(ctx context.Context) error {
	if t.lastVotes.rivals == 1 {
		t.losses = 0
		return t.awaitMessages(ctx)
	}
	window := min(max(timers.Mono()-t.sent.Mono(), firstPause)<<min(t.losses, 10), lastPause)
	t.losses++
	return t.pause(ctx, window/4+rand.N(window), 0)
}

// endedErr returns the error of a context that has ended, with what is known of the lock.
func (t *retryTicket) endedErr(ctx context.Context) error {
	err := errs.Ended(ctx)
	if len(t.lastVotes.held) > 0 {
		err = errs.WhileHeld(err)
	}
	return errs.Join(append([]error{err}, t.lastVotes.failures...)...)
}

// awaitMessages waits until enough servers on which the lock was held are reported free for a quorum.
func (t *retryTicket) awaitMessages(ctx context.Context) error {
	if t.waits == nil {
		t.waits = make([]*notify.Wait, len(t.lock.members))
	}
	for i, v := range t.lastVotes.held {
		if t.waits[i] == nil {
			m := t.lock.members[i]
			t.waits[i] = m.Dispatch.Wait(notify.Target{
				Channel: t.lock.base.Names.Unlocked(), Key: t.lock.keys[0], Poll: proto.RedlockPollScript, WaiterID: m.ID(),
			})
		}
		t.waits[i].FoundHeld(v.left)
	}
	need := max(majority(len(t.lock.members))-t.lastVotes.granted, 1)
	return t.pause(ctx, longestWait, min(need, len(t.lastVotes.held)))
}

// pause waits for d; or, if need is not 0, until so many servers report that they are free, and at most for grace after the
// first report.
func (t *retryTicket) pause(ctx context.Context, d time.Duration, need int) error {
	s := t.lock.group.members[0]
	patience := s.Patient(d)
	defer func() { patience.End() }()
	cases := []reflect.SelectCase{recvCase(ctx.Done()), recvCase(t.lock.group.closing), recvCase(patience.Done())}
	if need > 0 {
		for i := range t.lastVotes.held {
			cases = append(cases, recvCase(t.waits[i].C))
		}
	}
	for freed := 0; ; {
		switch chosen, _, _ := reflect.Select(cases); chosen {
		case 0:
			return t.endedErr(ctx)
		case 1, 2:
			return nil // the next try finds the session closed
		default:
			cases[chosen].Chan = reflect.Value{} // each server counts once
			freed++
			if freed >= need {
				return nil
			}
			patience.End()
			patience = s.Patient(grace)
			cases[2] = recvCase(patience.Done())
		}
	}
}

func recvCase[T any](c <-chan T) reflect.SelectCase {
	return reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(c)}
}

// summary counts the votes of a ballot.
type summary struct {
	servers, granted int
	held             map[int]vote // the servers on which others have the lock
	rivals           int          // the number of other attempts that have the lock at some server
	duplicates       int          // the number of servers that granted the same attempt to another session
	failures         []error      // the errors of the other servers
	finalFailures    int          // the number of failures that waiting does not mend
}

// summary returns the votes so far. previous, an attempt of the same caller, does not count as a rival.
func (b *ballot) summary(previous string) summary {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := summary{servers: len(b.mu.servers), held: make(map[int]vote)}
	rivals := make(map[string]struct{})
	for i := range b.mu.servers {
		v := b.mu.servers[i].vote
		if err := b.mu.servers[i].fenceErr; err != nil {
			v = vote{result: refused, err: err} // without its token the hold there is none
		}
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
