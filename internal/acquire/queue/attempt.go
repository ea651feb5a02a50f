// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"slices"
	"time"

	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// attemptState is one of the states of the package doc.
type attemptState uint8

const (
	entering attemptState = iota
	queued
	granted
	begun
	ticketLost
	over
)

// Grant is what the server gave: a hold that lasts for Life from Sent at the least.
type Grant struct {
	Stamp wire.Stamp // of the token
	Last  wire.Stamp // whose tokens are the hold's as well; not before Stamp
	Life  time.Duration
	Sent  clock.Instant
	Read  clock.Instant // when it was heard of
	// Counted says that the layout counts its tokens, and Token is the only one of the hold.
	Counted bool
	Token   uint64
}

// Tokens returns the first and the last token of the hold.
func (g Grant) Tokens() (first, last uint64) {
	if g.Counted {
		return g.Token, g.Token
	}
	return g.Stamp.Token(), g.Last.LastToken()
}

// LocalHold is the hold in this process that has the lock.
type LocalHold interface {
	// Evict ends the hold for cause.
	Evict(cause error)
	// Superseded ends the hold because the server has granted the lock to a newer one: it is gone.
	Superseded()
	// Recheck asks the server whether the hold still exists, and does not wait for the reply.
	Recheck()
}

// Attempt is one hold id: a wish for the lock, the place in its line, and the hold that comes of it.
// An id is not used for a second attempt. The fields are guarded by the lock of its Lines.
type Attempt struct {
	q        *Queue
	ticketID string        // the ticket: the hold id, and the mark of the wish; assigned once
	request  *Request      // assigned once
	woken    chan struct{} // room for one, coalesces; nil until a goroutine waits for it

	cancelEnter context.CancelFunc // ends an enter that waits for its reply; nil if no message could replace the reply
	refusal     error              // why it is over before it began, if the server gave a reason
	grant       Grant
	localHold   LocalHold
	notAfter    wire.Stamp // of the newest enter; 0 if none was sent
	entersSent  int32      // how many were sent; a requeue for it is one

	mayQueue       bool // it waits in the queue, or came to try; assigned once, before it is sent
	state          attemptState
	lockWasHeld    bool // the lock was held when its ticket was found lost
	pollFirst      bool // the next poll lists it: it may have been granted
	grantedAtOnce  bool // an enter replied that it has the lock
	outcomeUnknown bool // an enter of it had no reply
	joined         bool // an enter replied that it has the lock, or a ticket
	enterRefused   bool // an enter of it was refused; see hasNothing
	releaseDenied  bool // its release was, for lack of a right
	withdrawn      bool // Close ended it, and its leaving has begun
	needsRecheck   bool // Recheck was called before Begin: it may have had the lock before that, and no more
	pending        bool // it enters or waits: its line counts it
	waiting        bool // it is among those that wait in its line
}

// newAttempt makes an attempt known that comes to try, before anything of it is sent.
func (q *Queue) newAttempt(request *Request) *Attempt {
	a := &Attempt{q: q, ticketID: q.registry.session.NewTicket(request.Mode), request: request}
	q.registry.mu.Lock()
	defer q.registry.mu.Unlock()
	a.registerLocked()
	return a
}

func (a *Attempt) registerLocked() {
	a.q.registry.mu.attempts[a.attempt()] = a
	a.q.attempts++
}

// newWaitingAttempt registers an attempt that is to wait in the queue, where it stays.
func (q *Queue) newWaitingAttempt(request *Request) *Attempt {
	a := &Attempt{q: q, ticketID: q.registry.session.NewTicket(request.Mode), request: request, mayQueue: true, pending: true}
	q.registry.mu.Lock()
	defer q.registry.mu.Unlock()
	a.registerLocked()
	q.newestRequest = request
	if q.pending++; q.pending == 1 {
		q.registry.mu.pendingQueues++
	}
	return a
}

// recordSendLocked records that an enter of a is about to be sent.
func (a *Attempt) recordSendLocked(notAfter wire.Stamp) {
	a.notAfter = notAfter
	if a.entersSent++; a.entersSent == 1 && a.pending {
		a.q.pendingSent++
	}
}

// addToWaitingLocked puts a among those that wait in its line, unless it has left. An attempt that gets the lock at once never
// comes there: until the reply to its enter, a message finds it by its name, and a poll by being the session's.
func (a *Attempt) addToWaitingLocked() {
	if a.q.initWaitLocked(); a.pending && !a.waiting {
		a.waiting = true
		a.q.waiting = append(a.q.waiting, a)
	}
}

// forget unregisters a: the server has nothing of it any more, or it ends by itself.
func (a *Attempt) forget() {
	a.q.registry.mu.Lock()
	defer a.q.registry.mu.Unlock()
	a.forgetLocked()
}

func (a *Attempt) forgetLocked() {
	registry, attempt := a.q.registry, a.attempt()
	if registry.mu.attempts[attempt] == a {
		delete(registry.mu.attempts, attempt)
		a.q.attempts--
	}
}

// endWaiting ends the waiting of a in state. It reports whether a was granted in the same instant: then
// it is begun instead.
func (a *Attempt) endWaiting(to attemptState) (isGranted bool) {
	registry := a.q.registry
	registry.mu.Lock()
	isGranted = a.state == granted
	if a.state = to; isGranted {
		a.state = begun
	}
	unused := a.endPendingLocked()
	registry.mu.Unlock()
	if unused != nil {
		unused.Close()
	}
	return isGranted
}

// endPendingLocked removes a from the attempts that enter or wait. It returns the listener to close, or nil.
func (a *Attempt) endPendingLocked() *grantListener {
	q := a.q
	if !a.pending {
		return nil
	}
	if a.waiting {
		q.waiting = slices.DeleteFunc(q.waiting, func(other *Attempt) bool { return other == a })
	}
	if a.entersSent > 0 {
		q.pendingSent--
	}
	a.pending, a.waiting = false, false
	if q.pending--; q.pending > 0 {
		return nil
	}
	q.registry.mu.pendingQueues--
	if q.waitState != nil {
		q.registry.session.Timers.Cancel(&q.timer)
		q.pollScheduled = false
	}
	listener := q.listener
	q.listener = nil
	if listener == nil || !listener.removeQueueLocked() {
		return nil
	}
	return listener
}

// applyGrantLocked records that a has the lock for the life that heartbeat paid for.
func (a *Attempt) applyGrantLocked(token wire.Stamp, number string, now clock.Instant) {
	switch a.state {
	case entering, queued:
		b, ok := a.q.registry.findHeartbeatLocked(number, now)
		switch {
		case a.isSupersededLocked(token):
			// The session has a newer hold. If the server has not, its next renewal says so, and the next poll after that.
			a.pollFirst, a.q.seenStamp = true, 0
			a.addToWaitingLocked()
		case ok:
			a.grant, a.state = a.newGrant(token, token.BlockEnd(), b.life, b.sent, now), granted
			a.wake()
			if a.cancelEnter != nil {
				a.cancelEnter()
			}
		case a.mayQueue:
			// This is a hint: that life is over by our clock, or not known. The poll lengthens what there is.
			a.pollFirst = true
			a.addToWaitingLocked()
			a.q.pollLocked()
		}
	case over:
		a.repeatLeave() // the leaving overtook the entering
	case granted, begun, ticketLost:
	}
}

// pollIfExpired reports whether the grant of a is over before it began, because its goroutine did not run for that
// long. Then a continues to wait, and a poll at once finds out whether it still has the lock, and lengthens
// the hold.
func (a *Attempt) pollIfExpired() bool {
	registry, now := a.q.registry, clock.Now()
	registry.mu.Lock()
	defer registry.mu.Unlock()
	if a.state != granted || !clock.Deadline(a.grant.Sent, a.grant.Life).Reached(now) {
		return false
	}
	a.awaitPollLocked()
	return true
}

// awaitPollLocked has a wait, and polls for it at once: it may have the lock.
func (a *Attempt) awaitPollLocked() {
	a.state, a.pollFirst = queued, true
	a.addToWaitingLocked()
	a.q.pollLocked()
}

// wake wakes the goroutine that waits, if there is one. Under the lock, as newsLocked: what happened before that made the
// channel is seen by the goroutine itself.
func (a *Attempt) wake() {
	select {
	case a.woken <- struct{}{}:
	default: // one is there already, or no goroutine waits
	}
}

// wakeChannel returns the channel on which a goroutine that waits is woken, and the state of a.
func (a *Attempt) wakeChannel() (<-chan struct{}, attemptState) {
	a.q.registry.mu.Lock()
	defer a.q.registry.mu.Unlock()
	if a.woken == nil {
		a.woken = make(chan struct{}, 1)
	}
	return a.woken, a.state
}

// sleep waits for d, or until there is news of a.
func (a *Attempt) sleep(ctx context.Context, d time.Duration) {
	s := a.q.registry.session
	woken, state := a.wakeChannel()
	if state == entering && s.Ready() == nil { // Close may have come before the channel
		s.Sleep(ctx, d, woken)
	}
}

// Grant returns what the server gave.
func (a *Attempt) Grant() Grant {
	a.q.registry.mu.Lock()
	defer a.q.registry.mu.Unlock()
	return a.grant
}

// Begin registers the tenant that has the lock now; from here on it can be evicted. For an exclusive lock it
// ends the older hold that the session may have: the message that a force unlock ended that one may arrive
// after the newer grant. The older one is the one with the smaller token. That can be a itself, if another
// attempt was granted the lock before the goroutine of a ran.
func (a *Attempt) Begin(localHold LocalHold) {
	older, needsRecheck := a.setLocalHold(localHold)
	if older != nil {
		older.Superseded()
	}
	if needsRecheck {
		localHold.Recheck()
	}
}

func (a *Attempt) setLocalHold(localHold LocalHold) (older LocalHold, needsRecheck bool) {
	q := a.q
	q.registry.mu.Lock()
	defer q.registry.mu.Unlock()
	a.localHold = localHold
	if localHold == nil {
		return nil, false
	}
	needsRecheck, a.needsRecheck = a.needsRecheck, false
	if !q.registry.protocol.isExclusive() {
		return nil, needsRecheck
	}
	if a.isSupersededLocked(a.grant.Stamp) {
		return localHold, false
	}
	if q.newestHold != nil && q.newestHold != a {
		older = q.newestHold.localHold
	}
	q.newestHold = a
	return older, needsRecheck
}

// isSupersededLocked reports whether the session has an exclusive hold with a greater token than a grant at that stamp has.
// Such a grant was over before its message arrived: the newer hold is the one at the server.
func (a *Attempt) isSupersededLocked(token wire.Stamp) bool {
	holding := a.q.newestHold
	return holding != nil && holding != a && holding.grant.Stamp > token
}

// hasNoTicketLocked reports whether a certainly has no ticket: its only enter has a reply. An attempt that was granted
// at once never had one. If that enter queued a ticket of an exclusive lock, the grant removed it, unless a right
// was missing.
func (a *Attempt) hasNoTicketLocked() bool {
	return a.entersSent == 1 && !a.outcomeUnknown && (a.grantedAtOnce || a.q.registry.protocol.isExclusive() && !a.releaseDenied)
}

// Extended records that the hold was lengthened by a call that was sent at sent. Call it before Begin.
func (a *Attempt) Extended(life time.Duration, sent clock.Instant) {
	a.q.registry.mu.Lock()
	defer a.q.registry.mu.Unlock()
	a.grant.Life, a.grant.Sent = life, sent
}

// Name returns the name under which the server records the hold.
func (a *Attempt) Name() string {
	if a.q.registry.protocol.Labelled {
		return a.ticket() + a.q.registry.session.Settings.Label
	}
	return a.ticket()
}

// ticket returns what the attempt is called in its line.
func (a *Attempt) ticket() string { return a.ticketID }

// attempt returns the part of the hold id that is not the session's.
func (a *Attempt) attempt() string {
	end := len(a.ticketID) - len(a.request.Mode)
	return a.ticketID[end-attemptSize : end]
}
