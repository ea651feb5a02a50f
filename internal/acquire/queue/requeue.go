// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"time"

	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// Requeue releases the hold of a and queues the session again with the same request, in one call, and waits for that as long as
// ctx lasts. used, lasts and had are those of Release. next may be granted already. It is nil if the server made no
// ticket. After an error the release is repeated in the background, and next may have a ticket.
func (a *Attempt) Requeue(ctx context.Context, used wire.Stamp, lasts time.Duration) (next *QueuedRequest, had bool, err error) {
	a.Begin(nil) // see Release
	q := a.q
	q.hearAlready()
	p := q.Prepare(a.wish, new(QueuedRequest))
	call, sent := p.attempt.requeueCall(a, used)
	runner := q.lines.session.Runner
	reply, err := runner.Run(ctx, call)
	if err != nil && wire.TryAgain(err) {
		reply, err = runner.Run(ctx, q.alone(call))
	}
	a.end()
	if err != nil {
		a.releaseFailed(err, lasts)
		p.attempt.enterFailed(err)
		if wire.Judge(err) != wire.Unknown {
			p.drop()
			return nil, false, err
		}
		p.attempt.mayBeQueued()
		return p, false, err
	}
	r := requeued(reply)
	isQueued := p.attempt.queued(reply, sent)
	a.released(!r.looked)
	if !isQueued {
		p.drop()
		p = nil
	}
	return p, r.had, nil
}

// drop leaves a ticket with which no goroutine waits.
func (p *QueuedRequest) drop() {
	if a := p.Leave(); a != nil {
		a.Abandon()
	}
}

// requeueCall returns the call that releases old for a, and when it is sent.
func (a *Attempt) requeueCall(old *Attempt, used wire.Stamp) (call wire.Call, sent clock.Instant) {
	q, s := a.q, a.q.lines.session
	q.lines.mu.Lock()
	defer q.lines.mu.Unlock()
	sent = clock.Now()
	a.sendLocked(s.NotAfter(q.keys.Slot, sent, session.MaxPatience))
	b := q.lines.beatLocked(sent)
	return wire.Call{
		Script: q.lines.kind.Requeue,
		Keys:   q.keys.All,
		Args: []string{
			old.Name(), a.ticket(), micros(a.wish.Life), a.notAfter.Text(), micros(b.life), b.number,
			s.Settings.Label, s.PublishCommand(), q.keys.Channel, a.wish.FloorTTL, old.floor(used), flag(old.isSureLocked()),
		},
	}, sent
}

// fate is what a requeue says of the hold that it released.
type fate struct {
	had    bool // it had the lock
	looked bool // nothing of it is at the server any more
}

// requeued reads it: the last two elements of the reply.
func requeued(reply wire.Reply) fate {
	n := reply.Len()
	if n < 4 {
		return fate{} // with the holder key alone, and that is another's
	}
	return fate{looked: reply.Int(n-2) == 1, had: reply.Int(n-1) == 1}
}

// queued handles the reply to a requeue. It returns false if a has no ticket.
func (a *Attempt) queued(reply wire.Reply, sent clock.Instant) bool {
	ls, q, now := a.q.lines, a.q, clock.Now()
	code := reply.Code()
	switch code {
	case wire.Done:
		ls.session.Clock.Observe(q.keys.Slot, reply.Stamp(2), now)
	case wire.NotDone:
		ls.session.Clock.Observe(q.keys.Slot, reply.Stamp(3), now)
		ls.granted(reply.Text(4))
	case wire.Foreign:
		return false // another kind of lock has the name: the hold is lost, and the next enter says the rest
	default:
		ls.session.Clock.Observe(q.keys.Slot, reply.Stamp(1), now)
		return false
	}
	if code == wire.NotDone {
		q.hear()
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if code == wire.NotDone {
		q.heardLocked(sent)
	}
	if a.stoodLocked(reply, sent, now) == tooSlow {
		a.askLocked()
	}
	return true
}

// mayBeQueued says that the requeue for a has no reply. A poll finds out what a has.
func (a *Attempt) mayBeQueued() {
	a.q.hear()
	a.q.lines.mu.Lock()
	defer a.q.lines.mu.Unlock()
	if a.state == entering {
		a.askLocked()
	}
}
