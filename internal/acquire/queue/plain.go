// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// The plain acquire: SET NX PXAT, PTTL and GET in one pipeline, in place of an enter. The SET writes what lock/enter writes if the holder
// key is missing, which means that there is no hold, no floor and no mark. Its stamp is the session's estimate of the server's
// time. Nothing that depends on the estimate is believed before the replies to PTTL and GET have shown that it was right:
// docs/engine.md has the rules, and decision 58 the reasons.

const (
	// plainDelay is how old the stamp may be when the SET is executed: the key lives for longer than the hold by that, so a life that
	// is shorter than the hold shows an older one. It is at most half of the shortest lease: then the key of another holder
	// outlives its stamp by more.
	plainDelay = 50 * time.Millisecond
	// plainRounding is by how much the life may be too long: server and session round to milliseconds, and clocks drift.
	plainRounding = 2 * time.Millisecond
	// distrustCost is what an acquire takes out of the purse that was not believed, or had no reply: a thousand acquires by script. So a
	// server that is more than 50 ms away, or a clock that is often set, costs next to nothing.
	distrustCost = 32 * missCost
)

// errUnbelieved says that SET replied OK, and that the session does not believe that it has the lock.
var errUnbelieved = fmt.Errorf("%w: the server's time was not as it was thought to be", errTooSlow)

// mayBePlain reports whether an enter of a could be replaced by a plain acquire that is no miss, as far as the session knows: it
// is the first request of a, and the session has not used the name lately. A name that it has used has a floor. It needs no lock:
// only the goroutine that sends the requests of a changes its footprint.
func (a *Attempt) mayBePlain() bool {
	registry := a.q.registry
	return registry.protocol.Free != nil && a.request.Life <= session.MaxPatience && a.footprint.Sent == 0 &&
		!registry.session.Runner.HasUsed(a.q.keys.Holder)
}

// isPlainWorthATry reports whether a plain acquire is worth a try, of an attempt that mayBePlain: the purse allows it, the server's
// time is known well enough, and no other attempt of the session for the lock is known.
func (a *Attempt) isPlainWorthATry() bool {
	registry := a.q.registry
	if !registry.plain.allows() || registry.plainDenied.Load() || !registry.session.Clock.IsFresh(clock.Now()) {
		return false
	}
	registry.mu.Lock()
	defer registry.mu.Unlock()
	return a.q.attempts == 1
}

// acquirePlain tries the plain acquire. If isOver is false, it did nothing, and the enter follows with the same ticket. Otherwise a is
// granted, or its ticket is used up: a reply to an enter with that ticket would have the stamp of the SET, however late that
// was executed.
func (a *Attempt) acquirePlain(ctx context.Context) (isOver bool, err error) {
	registry, s, slot := a.q.registry, a.q.registry.session, a.q.keys.Slot
	life, sent := a.request.Life, clock.Now()
	stamp := s.Clock.NotAfter(slot, sent, 0)
	end := plainEnd(stamp, life)
	value, endText := a.plainArgs(stamp, end)
	reply, err := s.Runner.RunPlain(ctx, a.q.keys.Holder, value, endText)
	if errors.Is(err, errs.ErrDenied) {
		registry.plainDenied.Store(true)
	}
	if !reply.IsSet && (err == nil || wire.Judge(err) != wire.Unknown) {
		if err == nil || wire.IsReplyError(err) { // otherwise nothing was sent
			registry.plain.pay(-missCost)
		}
		return false, nil
	}
	now := clock.Now()
	if reply.IsOwn {
		s.Clock.Observe(slot, wire.Stamp((end-reply.Left.Milliseconds())*1000), now)
	}
	registry.mu.Lock()
	defer registry.mu.Unlock()
	a.sendLocked(wire.Stamp(end * 1000)) // executed later, the SET leaves nothing
	switch {
	case isPlainHold(&reply, life) && !clock.Deadline(sent, life).Reached(now) && !a.isSupersededLocked(stamp):
		a.footprint.Leave(session.UnmarkedHoldLeft)
		a.foundNoMarkLocked(sent)
		a.grant = a.newGrant(stamp, stamp, life, sent, now)
		a.toLocked(granted)
		registry.plain.pay(hitPay)
		return true, nil
	case reply.IsSet:
		a.footprint.Leave(session.HoldLeft)
		err = errUnbelieved
	default:
		a.footprint.Unknown = true
	}
	registry.plain.pay(-distrustCost)
	if a.state == entering {
		a.toLocked(ticketLost)
	}
	return true, err
}

// plainArgs returns what an enter writes to the holder key when it acquires a lock without a queue, which is kind, stamp, ticket, no
// mark and label, and end as a text. Both are one object.
func (a *Attempt) plainArgs(stamp wire.Stamp, end int64) (value, endText string) {
	var buffer [144]byte // on the stack: the longest value has 127 bytes, and end has 13
	text := append(stamp.Append(append(buffer[:0], "sb1l"...)), a.unmarked()...)
	text = append(text, a.q.registry.session.Settings.Label...)
	size := len(text)
	both := string(strconv.AppendInt(text, end, 10))
	return both[:size], both[size:]
}

// plainEnd returns the end of the key with that stamp, in milliseconds.
func plainEnd(stamp wire.Stamp, life time.Duration) int64 {
	return (int64(stamp) + (life + plainDelay).Microseconds()) / 1000
}

// isPlainHold reports whether the replies show a hold that lasts for life from the sending, and whose stamp was neither too old nor ahead.
func isPlainHold(reply *wire.PlainReply, life time.Duration) bool {
	return reply.IsSet && reply.IsOwn && life <= reply.Left && reply.Left <= life+plainDelay+plainRounding
}
