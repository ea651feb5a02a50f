// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"slices"
	"time"

	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// state is one of the states of the package doc.
type state uint8

const (
	entering state = iota
	queued
	granted
	begun
	gone
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

// Tenant is the hold in this process that has the lock.
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
	q    *Queue
	name string        // the ticket: the hold id, and the mark of the wish; assigned once
	wish *Request      // assigned once
	news chan struct{} // room for one, coalesces; nil until a goroutine waits for it

	told     context.CancelFunc // ends an enter that waits for its reply; nil if no message could replace the reply
	refusal  error              // why it is over before it began, if the server gave a reason
	grant    Grant
	tenant   LocalHold
	notAfter wire.Stamp // of the newest enter; 0 if none was sent
	enters   int32      // how many were sent; a requeue for it is one

	queues    bool // it waits in the queue, or came to try; assigned once, before it is sent
	state     state
	behind    bool // the lock was held when its ticket was found lost
	urgent    bool // the next poll lists it: it may have been granted
	atOnce    bool // an enter replied that it has the lock
	unknown   bool // an enter of it had no reply
	stood     bool // an enter replied that it has the lock, or a ticket
	refused   bool // an enter of it was refused; see hasNothing
	denied    bool // its release was, for lack of a right
	withdrawn bool // Close ended it, and its leaving has begun
	doubtful  bool // Recheck was called before Begin: it may have had the lock before that, and no more
	comes     bool // it enters or waits: its line counts it
	waits     bool // it is among those that wait in its line
}

// begin makes an attempt known that comes to try, before anything of it is sent.
func (q *Queue) begin(wish *Request) *Attempt {
	a := &Attempt{q: q, name: q.lines.session.NewTicket(wish.Mode), wish: wish}
	q.lines.mu.Lock()
	defer q.lines.mu.Unlock()
	a.beginLocked()
	return a
}

func (a *Attempt) beginLocked() {
	a.q.lines.mu.attempts[a.attempt()] = a
	a.q.attempts++
}

// beginWaiting registers an attempt that is to wait in the queue, where it stays.
func (q *Queue) beginWaiting(wish *Request) *Attempt {
	a := &Attempt{q: q, name: q.lines.session.NewTicket(wish.Mode), wish: wish, queues: true, comes: true}
	q.lines.mu.Lock()
	defer q.lines.mu.Unlock()
	a.beginLocked()
	q.wish = wish
	if q.comers++; q.comers == 1 {
		q.lines.mu.waited++
	}
	return a
}

// sendLocked records that an enter of a is about to be sent.
func (a *Attempt) sendLocked(notAfter wire.Stamp) {
	a.notAfter = notAfter
	if a.enters++; a.enters == 1 && a.comes {
		a.q.asked++
	}
}

// waitLocked puts a among those that wait in its line, unless it has left. An attempt that gets the lock at once never
// comes there: until the reply to its enter, a message finds it by its name, and a poll by being the session's.
func (a *Attempt) waitLocked() {
	if a.q.waitsLocked(); a.comes && !a.waits {
		a.waits = true
		a.q.waiting = append(a.q.waiting, a)
	}
}

// forget unregisters a: the server has nothing of it any more, or it ends by itself.
func (a *Attempt) forget() {
	a.q.lines.mu.Lock()
	defer a.q.lines.mu.Unlock()
	a.forgetLocked()
}

func (a *Attempt) forgetLocked() {
	ls, attempt := a.q.lines, a.attempt()
	if ls.mu.attempts[attempt] == a {
		delete(ls.mu.attempts, attempt)
		a.q.attempts--
	}
}

// leaveLine ends the waiting of a in state. It reports whether a was granted in the same instant: then
// it is begun instead.
func (a *Attempt) leaveLine(to state) (isGranted bool) {
	ls := a.q.lines
	ls.mu.Lock()
	isGranted = a.state == granted
	if a.state = to; isGranted {
		a.state = begun
	}
	left := a.goneLocked()
	ls.mu.Unlock()
	if left != nil {
		left.Close()
	}
	return isGranted
}

// goneLocked removes a from the attempts that enter or wait. It returns the listener to close, or nil.
func (a *Attempt) goneLocked() *ear {
	q := a.q
	if !a.comes {
		return nil
	}
	if a.waits {
		q.waiting = slices.DeleteFunc(q.waiting, func(other *Attempt) bool { return other == a })
	}
	if a.enters > 0 {
		q.asked--
	}
	a.comes, a.waits = false, false
	if q.comers--; q.comers > 0 {
		return nil
	}
	q.lines.mu.waited--
	if q.wait != nil {
		q.lines.session.Timers.Cancel(&q.next)
		q.planned = false
	}
	e := q.ear
	q.ear = nil
	if e == nil || !e.leaveLocked() {
		return nil
	}
	return e
}

// grantedLocked records that a has the lock for the life that heartbeat paid for.
func (a *Attempt) grantedLocked(token wire.Stamp, paid string, now clock.Instant) {
	switch a.state {
	case entering, queued:
		b, ok := a.q.lines.paidLocked(paid, now)
		switch {
		case a.isOlderLocked(token):
			// The session has a newer hold. If the server has not, its next renewal says so, and the next poll after that.
			a.urgent, a.q.seen = true, 0
			a.waitLocked()
		case ok:
			a.grant, a.state = a.grantAt(token, token.BlockEnd(), b.life, b.sent, now), granted
			a.wake()
			if a.told != nil {
				a.told()
			}
		case a.queues:
			// This is a hint: that life is over by our clock, or not known. The poll lengthens what there is.
			a.urgent = true
			a.waitLocked()
			a.q.pollLocked()
		}
	case over:
		a.leaveAgain() // the leaving overtook the entering
	case granted, begun, gone:
	}
}

// isSpent reports whether the grant of a is over before it began, because its goroutine did not run for that
// long. Then a continues to wait, and a poll at once finds out whether it still has the lock, and lengthens
// the hold.
func (a *Attempt) isSpent() bool {
	ls, now := a.q.lines, clock.Now()
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if a.state != granted || !clock.Deadline(a.grant.Sent, a.grant.Life).Reached(now) {
		return false
	}
	a.askLocked()
	return true
}

// askLocked has a wait, and polls for it at once: it may have the lock.
func (a *Attempt) askLocked() {
	a.state, a.urgent = queued, true
	a.waitLocked()
	a.q.pollLocked()
}

// wake wakes the goroutine that waits, if there is one. Under the lock, as newsLocked: what happened before that made the
// channel is seen by the goroutine itself.
func (a *Attempt) wake() {
	select {
	case a.news <- struct{}{}:
	default: // one is there already, or no goroutine waits
	}
}

// wakes returns the channel on which a goroutine that waits is woken, and the state of a.
func (a *Attempt) wakes() (<-chan struct{}, state) {
	a.q.lines.mu.Lock()
	defer a.q.lines.mu.Unlock()
	if a.news == nil {
		a.news = make(chan struct{}, 1)
	}
	return a.news, a.state
}

// rest waits for d, or until there is news of a.
func (a *Attempt) rest(ctx context.Context, d time.Duration) {
	s := a.q.lines.session
	news, state := a.wakes()
	if state == entering && s.Ready() == nil { // Close may have come before the channel
		s.Sleep(ctx, d, news)
	}
}

// Grant returns what the server gave.
func (a *Attempt) Grant() Grant {
	a.q.lines.mu.Lock()
	defer a.q.lines.mu.Unlock()
	return a.grant
}

// Begin registers the tenant that has the lock now; from here on it can be evicted. For an exclusive lock it
// ends the older hold that the session may have: the message that a force unlock ended that one may arrive
// after the newer grant. The older one is the one with the smaller token. That can be a itself, if another
// attempt was granted the lock before the goroutine of a ran.
func (a *Attempt) Begin(tenant LocalHold) {
	older, doubtful := a.begin(tenant)
	if older != nil {
		older.Superseded()
	}
	if doubtful {
		tenant.Recheck()
	}
}

func (a *Attempt) begin(tenant LocalHold) (older LocalHold, doubtful bool) {
	q := a.q
	q.lines.mu.Lock()
	defer q.lines.mu.Unlock()
	a.tenant = tenant
	if tenant == nil {
		return nil, false
	}
	doubtful, a.doubtful = a.doubtful, false
	if !q.lines.kind.isExclusive() {
		return nil, doubtful
	}
	if a.isOlderLocked(a.grant.Stamp) {
		return tenant, false
	}
	if q.holding != nil && q.holding != a {
		older = q.holding.tenant
	}
	q.holding = a
	return older, doubtful
}

// isOlderLocked reports whether the session has an exclusive hold with a greater token than a grant at that stamp has.
// Such a grant was over before its message arrived: the newer hold is the one at the server.
func (a *Attempt) isOlderLocked(token wire.Stamp) bool {
	holding := a.q.holding
	return holding != nil && holding != a && holding.grant.Stamp > token
}

// isSureLocked reports whether a certainly has no ticket: its only enter has a reply. An attempt that was granted
// at once never had one. If that enter queued a ticket of an exclusive lock, the grant removed it, unless a right
// was missing.
func (a *Attempt) isSureLocked() bool {
	return a.enters == 1 && !a.unknown && (a.atOnce || a.q.lines.kind.isExclusive() && !a.denied)
}

// Lengthened records that the hold was lengthened by a call that was sent at sent. Call it before Begin.
func (a *Attempt) Extended(life time.Duration, sent clock.Instant) {
	a.q.lines.mu.Lock()
	defer a.q.lines.mu.Unlock()
	a.grant.Life, a.grant.Sent = life, sent
}

// Name returns the name under which the server records the hold.
func (a *Attempt) Name() string {
	if a.q.lines.kind.Labelled {
		return a.ticket() + a.q.lines.session.Settings.Label
	}
	return a.ticket()
}

// ticket returns what the attempt is called in its line.
func (a *Attempt) ticket() string { return a.name }

// attempt returns the part of the hold id that is not the session's.
func (a *Attempt) attempt() string {
	end := len(a.name) - len(a.wish.Mode)
	return a.name[end-attemptSize : end]
}
