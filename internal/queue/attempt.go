// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"time"

	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// Grant describes a hold that the server granted.
type Grant struct {
	Stamp wire.Stamp     // the stamp of the first token
	Last  wire.Stamp     // the stamp of the last token; not before Stamp, unless the layout counts tokens: see LastOfCounted
	Life  time.Duration  // the hold lasts at least for Life from Sent
	Sent  timers.Instant // when the call was sent from which Life counts
	Read  time.Duration  // when the session learned of the grant, on the monotonic clock
}

// Learned returns Read on both clocks, as if they had gone alike since Sent: if the host was suspended meanwhile, what counts from
// there ends earlier by that, and never later.
func (g Grant) Learned() timers.Instant { return g.Sent.Add(g.Read - g.Sent.Mono()) }

// LastOfCounted returns what Last is in a layout that counts tokens from 1, if token is the only token of the hold.
func LastOfCounted(token int64) wire.Stamp { return -wire.Stamp(token) }

// Tokens returns the first and the last token of the hold.
func (g Grant) Tokens() (first, last uint64) {
	if g.Last < 0 {
		counted := uint64(-g.Last)
		return counted, counted
	}
	return g.Stamp.Token(), g.Last.LastToken()
}

// Attempt is one attempt to acquire the lock, under one hold id: the request, the ticket, and the hold that may come of it.
// An id is not used for a second attempt. The mutex of the Queues guards the fields.
type Attempt struct {
	q       *Queue
	text    string       // the ticket, which is the hold id and the mode of the request, and its tail: noMark or the label; assigned once
	request *Request     // assigned once
	wait    *attemptWait // nil until it is needed

	grant     Grant
	localHold session.LocalHold
	footprint session.Footprint // what the server may have of the attempt; a requeue counts as an enter of the new one

	slot  uint32 // the slot in the list of waiting attempts; see place
	state attemptState
	place place
	idle  idleState
	flags attemptFlags
}

// attemptWait is what an attempt needs only if it has to wait, and what the ticket of which it is the first one needs then.
type attemptWait struct {
	ticketWait

	woken       chan struct{}      // wakes the goroutine that waits; has room for one; nil until a goroutine waits
	cancelEnter context.CancelFunc // ends an enter that waits for the reply; nil if no message could replace the reply
	refusal     error              // why the wait is over, if the server gave a reason
}

// waitLocked returns what a needs to wait. Only the goroutine that waits with a makes it, at the latest when a is queued, so that
// goroutine may read the pointer without the mutex.
func (a *Attempt) waitLocked() *attemptWait {
	if a.wait == nil {
		a.wait = new(attemptWait)
	}
	return a.wait
}

// place says how a Queue knows an attempt that waits.
type place uint8

const (
	noPlace     place = iota // the attempt only tries, or its goroutine has left
	pending                  // the attempt enters or waits, and counts as pending
	listed                   // it is in the list of waiting attempts as well
	listedFirst              // and the next poll lists it, because the lock may have been granted to it
)

// newAttempt returns an attempt that only tries. It is registered before anything of it is sent.
func (q *Queue) newAttempt(request *Request) *Attempt {
	a := new(Attempt)
	a.beginTrying(q, request)
	return a
}

// beginTrying registers a, which only tries, before anything of it is sent.
func (a *Attempt) beginTrying(q *Queue, request *Request) {
	a.q, a.text, a.request = q, q.registry.newText(request), request
	q.registry.mu.Lock()
	defer q.registry.mu.Unlock()
	a.registerLocked()
}

func (a *Attempt) registerLocked() {
	a.q.registry.mu.attempts.put(a)
	a.q.attempts++
}

// beginWaiting registers a, which waits in the queue, before anything of it is sent.
func (a *Attempt) beginWaiting(q *Queue, request *Request) {
	text := q.registry.newText(request)
	q.registry.mu.Lock()
	defer q.registry.mu.Unlock()
	a.beginWaitingLocked(q, text, request)
}

func (a *Attempt) beginWaitingLocked(q *Queue, text string, request *Request) {
	a.q, a.text, a.request, a.state, a.place = q, text, request, entering, pending
	a.registerLocked()
	q.newestRequest = request
	if q.pending++; q.pending == 1 {
		q.registry.mu.pendingQueues++
	}
}

// sendLocked records that an enter of a is about to be sent.
func (a *Attempt) sendLocked(notAfter wire.Stamp) {
	if a.footprint.Send(notAfter); a.footprint.Sent == 1 && a.place != noPlace {
		a.q.pendingSent++
	}
}

// leftTicketLocked records that a may have a ticket. If the lock is exclusive, a grant removes the ticket.
func (a *Attempt) leftTicketLocked() {
	if a.q.registry.protocol.isExclusive() {
		a.footprint.Note(session.TicketLeft)
	} else {
		a.footprint.Note(session.TicketBesideHold)
	}
}

// addToListLocked adds a to the waiting attempts of the queue, unless a has left. An attempt that gets the lock at once
// is never added. Until the reply to its enter, a message finds it by its id, and a poll finds it as one of the session's.
func (a *Attempt) addToListLocked() {
	if a.q.initWaitLocked(); a.place == pending {
		a.place = listed
		a.q.waiting.add(a)
	}
}

// addToFirstLocked is addToListLocked for an attempt that may have been granted the lock: the next poll lists it.
func (a *Attempt) addToFirstLocked() {
	a.addToListLocked()
	a.q.waiting.addFirst(a)
}

// forget unregisters a: the server has nothing of a any more, or what it has expires by itself.
func (a *Attempt) forget() {
	a.q.registry.mu.Lock()
	defer a.q.registry.mu.Unlock()
	a.forgetLocked()
}

func (a *Attempt) forgetLocked() {
	registry, attempt := a.q.registry, a.id()
	if registry.mu.attempts.get(attempt) == a {
		registry.mu.attempts.remove(attempt)
		a.q.attempts--
		if a.footprint.Left >= session.TicketLeft {
			registry.mu.past.add(a)
		}
	}
}

// endWaiting ends the waiting of a, and reports whether a was granted the lock, even in the same instant. Then a is begun;
// otherwise it is over.
func (a *Attempt) endWaiting() (isGranted bool) {
	registry := a.q.registry
	registry.mu.Lock()
	switch isGranted = a.state == granted; {
	case isGranted:
		a.toLocked(begun)
	case !a.state.isEnded():
		a.toLocked(over)
	}
	closing := a.leavePlaceLocked()
	registry.mu.Unlock()
	if closing != nil {
		closing.Close()
	}
	return isGranted
}

// leavePlaceLocked counts a out of the pending attempts. It returns the listener to close, or nil.
func (a *Attempt) leavePlaceLocked() *grantListener {
	q := a.q
	if a.place == noPlace {
		return nil
	}
	if a.place >= listed {
		q.waiting.remove(a)
	}
	if a.footprint.Sent > 0 {
		q.pendingSent--
	}
	a.place = noPlace
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

// applyGrantLocked records that a has the lock for the life of the heartbeat with that number.
func (a *Attempt) applyGrantLocked(token wire.Stamp, number string, now timers.Instant) {
	switch a.state {
	case entering, queued:
		h, ok := a.q.registry.findHeartbeatLocked(number, now)
		switch {
		case a.q.isSupersededLocked(a, token):
			// The session has a newer hold. If the server has it no more, the renewal of that hold finds out, and the poll after that
			// finds this grant.
			a.addToFirstLocked()
			a.q.polledStamp = 0
		case ok:
			a.grant = enterExchange{a}.newGrant(token, token.BlockEnd(), h.life, h.sent, now)
			a.toLocked(granted)
			a.wake()
			if a.wait != nil && a.wait.cancelEnter != nil {
				a.wait.cancelEnter()
			}
		default:
			// This is a hint: the heartbeat is not known, or its life is over by our clock. The poll extends the hold, if there
			// is one.
			a.addToFirstLocked()
			a.q.pollLocked()
		}
	case over, withdrawn:
		leaveExchange{a}.repeatLeave() // the leave overtook the enter
	default:
	}
}

// pollIfExpired reports whether the grant of a has expired before its hold began, because the goroutine did not run for
// that long. Then a continues to wait. A poll at once finds out whether a still has the lock, and extends the hold. The goroutine
// calls it after it has seen that a was granted: from then on it alone changes the state and the grant.
func (a *Attempt) pollIfExpired() bool {
	if !timers.Deadline(a.grant.Sent, a.grant.Life).Reached(timers.Now()) {
		return false
	}
	a.q.registry.mu.Lock()
	defer a.q.registry.mu.Unlock()
	a.awaitPollLocked()
	return true
}

// awaitPollLocked lets a wait, and polls for it at once, because it may have the lock.
func (a *Attempt) awaitPollLocked() {
	a.toLocked(queued)
	a.addToFirstLocked()
	a.q.pollLocked()
}

// wake wakes the goroutine that waits, if there is one. It is called with the mutex locked. A change that came before
// wakeChannel made the channel is seen by the goroutine itself.
func (a *Attempt) wake() {
	if a.wait == nil {
		return
	}
	select {
	case a.wait.woken <- struct{}{}:
	default: // one is there already, or no goroutine waits
	}
}

// wakeChannel returns the channel on which a goroutine that waits is woken, and the state of a, with the reason why it is over.
func (a *Attempt) wakeChannel() (woken <-chan struct{}, state attemptState, refusal error) {
	a.q.registry.mu.Lock()
	defer a.q.registry.mu.Unlock()
	w := a.waitLocked()
	if w.woken == nil {
		w.woken = make(chan struct{}, 1)
	}
	return w.woken, a.state, w.refusal
}

// sleep pauses for d, or until a is woken.
func (a *Attempt) sleep(ctx context.Context, d time.Duration) {
	s := a.q.registry.session
	woken, state, _ := a.wakeChannel()
	if state == entering && s.Ready() == nil { // Close may have come before the channel
		s.Sleep(ctx, d, woken)
	}
}

// Done implements Hold.
func (a *Attempt) Done() { a.q.Done() }

// Grant returns what the server gave. It needs no lock: only the goroutine that has the hold changes it.
func (a *Attempt) Grant() Grant { return a.grant }

// Register lists the hold in this process. From now on it can be evicted. For an exclusive lock, Register ends the older hold
// that the session may have: the message that a force unlock ended that hold may arrive after the newer grant. The older
// hold is the one with the smaller token. That can be the hold of a itself, if another attempt was granted the lock before
// the goroutine of a ran.
func (a *Attempt) Register(localHold session.LocalHold) {
	older, rechecks, wanted := a.setLocalHold(localHold)
	if older != nil {
		older.Superseded()
	}
	if rechecks {
		localHold.Recheck()
	}
	if wanted != nil {
		wanted.OnRecall()
	}
}

func (a *Attempt) setLocalHold(localHold session.LocalHold) (older session.LocalHold, rechecks bool, wanted session.RecalledHold) {
	q := a.q
	q.registry.mu.Lock()
	defer q.registry.mu.Unlock()
	a.localHold = localHold
	if localHold == nil {
		return nil, false, nil
	}
	rechecks = a.flags&needsRecheck != 0
	if a.flags&hinted != 0 {
		a.questionLocked()
	}
	a.flags &^= needsRecheck | hinted
	if a.idle.isRecalled() && a.request.KeepFor > 0 {
		wanted, _ = localHold.(session.RecalledHold)
	}
	if !q.registry.protocol.isExclusive() {
		return nil, rechecks, nil
	}
	if a.q.isSupersededLocked(a, a.grant.Stamp) {
		return localHold, false, wanted
	}
	if q.newestHold != nil && q.newestHold != a {
		older = q.newestHold.localHold
	}
	q.newestHold = a
	return older, rechecks, wanted
}

// isSupersededLocked reports whether the session has an exclusive hold with a greater token than a grant to a at that stamp.
// Such a grant was over before its message arrived: the server has the newer hold.
func (q *Queue) isSupersededLocked(a *Attempt, token wire.Stamp) bool {
	newest := q.newestHold
	return newest != nil && newest != a && newest.grant.Stamp > token
}

// Extended records that the hold was extended by a call that was sent at sent. Call it before Register.
func (a *Attempt) Extended(life time.Duration, sent timers.Instant) {
	a.q.registry.mu.Lock()
	defer a.q.registry.mu.Unlock()
	a.grant.Life, a.grant.Sent = life, sent
}

// Name returns the name under which the server records the hold.
func (a *Attempt) Name() string {
	if a.q.registry.protocol.Labelled {
		return a.text
	}
	return a.ticket()
}

// noMark is what the enter of an exclusive lock without a queue writes behind the ticket.
const noMark = "-"

// newText returns a new ticket with its tail, which makes another argument of scripts of it: the label, which is part of the hold's
// name, or noMark.
func (r *Queues) newText(request *Request) string {
	tail := noMark
	if r.protocol.Labelled {
		tail = r.session.Settings.Label
	}
	return r.session.NewTicket(request.Mode, tail)
}

// ticket returns the name of a in the queue.
func (a *Attempt) ticket() string { return a.text[:proto.HoldSize+len(a.request.Mode)] }

// id returns the id of a within its session: the part of the hold id after the session's.
func (a *Attempt) id() string { return idIn(a.text) }

// idIn returns the id within the session that a ticket or a hold has.
func idIn(text string) string { return text[proto.HoldSize-attemptSize : proto.HoldSize] }
