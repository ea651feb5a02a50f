// SPDX-License-Identifier: Apache-2.0

package session

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/wire"
)

const (
	// silentFor is how long calls fail before the log says so.
	silentFor = 5 * time.Second
	// sayAgain is how often the log repeats that a right is missing which was there before.
	logAgain = time.Minute
	// forgetAfter is how long after its last failure an outage counts as another one: its call was not made again.
	forgetAfter = 15 * time.Minute
	// standsFor is how long a call without a failure stands for the others of an outage.
	sampleFor = 10 * time.Second
	// leastCut is how long a call has waited at least that its caller's context ended, if that says anything about the server.
	minWait = 100 * time.Millisecond
)

// cause is why calls fail, and are tried again.
type outageCause int

const (
	unreachable outageCause = iota // there is no connection, or no reply
	refused                        // the server, or a proxy, refuses
	denied                         // a right is missing
	late                           // requests arrive too late, by the server's clock
	outageCauses
)

// lines are what the log says of each cause: when it has lasted for a while, what to do, and when it is over.
//
//nolint:gochecknoglobals // a constant table
var outageMessages = [outageCauses]struct{ begins, advice, ends string }{
	unreachable: {
		"signalbox: the server cannot be reached; calls are tried again, and leases that are not renewed are lost",
		"check that the server runs, and the network, address and TLS settings of this client",
		"signalbox: the server can be reached again",
	},
	refused: {
		"signalbox: the server refuses calls; they are tried again, and leases that are not renewed are lost",
		"READONLY: the address leads to a replica; OOM: raise maxmemory; else see docs/refusals.md for the server's words",
		"signalbox: the server accepts calls again",
	},
	denied: {
		"signalbox: the server denies a right; calls that wait for it are tried again, and leases that are not renewed are lost",
		"renew the client's credentials, or grant what the error names; docs/security.md lists the rights",
		"signalbox: the server grants the right again",
	},
	late: {
		"signalbox: requests arrive at the server too late to take effect; they are tried again",
		"check how long a request takes, and that the clocks of all servers behind the address agree",
		"signalbox: requests arrive in time again",
	},
}

// outages logs that calls fail for longer than waiters should wait in silence, once for each cause, and that they succeed
// again. It hears of the outcome of every call of its session, so it covers waiters, polls, renewals and releases of all
// kinds, and a caller that tries again by itself. It has no timer and no goroutine but for the line that is written: a waiter
// tries again within a second, and its next failure is the occasion.
//
// An outage is over when a call succeeds that it concerns: for want of a connection that is any call, in a cluster one of the
// same slot; otherwise a call of the script, and if a right is missing of the key, that failed first.
type outages struct {
	session *Session
	open    atomic.Bool // an outage or a clock that was set back is known; to be read without the lock

	mu struct {
		sync.Mutex
		byCause [outageCauses]outage
		clock   clockStep
	}
}

// outage is one cause for which calls fail. The zero outage is over.
type outage struct {
	calls    int           // that failed
	since    time.Duration // when the first of them began, on the monotonic clock, as all times here
	last     time.Duration // when the last of them failed
	logged   bool          // it was logged
	loggedAt time.Duration // when it was logged last

	// The call that stands for the others, and when it failed last.
	script  string
	key     string
	sampled time.Duration
}

// Failed implements wire.Watcher. The call began at began, and its caller does not want it any more if ended is true.
func (o *outages) Failed( //nolint:revive // ended is a fact, not a switch
	script string, key string, began time.Duration, err error, ended bool,
) {
	now := clock.Now().Mono()
	why, counts := causeOf(err)
	if !counts || ended && why == unreachable && now-began < minWait {
		return
	}
	if ended && why == unreachable {
		err = errs.NoReply(now - began) // and not the end of a context that is no reader's
	}
	o.failed(why, script, key, began, now, err)
}

// causeOf returns why a call failed. counts is false if the log has nothing to say about it.
func causeOf(err error) (why outageCause, counts bool) {
	switch {
	case errors.Is(err, errs.ErrClosed), errors.Is(err, wire.ErrNotSent):
		return 0, false
	case errors.Is(err, errs.ErrDenied):
		return denied, true
	case wire.Judge(err) == wire.Final:
		return 0, false
	case wire.IsReplyError(err), errors.Is(err, wire.ErrUnreadable):
		return refused, true
	}
	return unreachable, true
}

func (o *outages) failed(why outageCause, script string, key string, began, now time.Duration, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.open.Store(true)
	at := &o.mu.byCause[why]
	if at.calls > 0 && now-at.last > forgetAfter {
		*at = outage{}
	}
	if at.calls == 0 {
		at.since = began
	}
	if gone := &o.mu.byCause[unreachable]; why != unreachable && gone.calls > 0 && o.concernsLocked(unreachable, script, key) {
		if at.calls == 0 && !gone.logged {
			at.since = gone.since // a server that comes back refuses at first: it is one wait
		}
		o.endLocked(unreachable, now)
	}
	at.calls++
	at.last = now
	if at.calls == 1 || at.script == script && at.key == key || now-at.sampled > sampleFor {
		at.script, at.key, at.sampled = script, key, now
	}
	lapsed := why == denied && wire.Judge(err) == wire.Temporary
	switch {
	case !at.logged && (lapsed || now-at.since >= silentFor), lapsed && now-at.loggedAt >= logAgain:
		at.logged, at.loggedAt = true, now
		o.warn(outageMessages[why].begins, "error", err, "do", outageMessages[why].advice, "for", (now - at.since).Round(time.Millisecond), "events", at.calls)
	}
}

// Replied implements wire.Watcher.
func (o *outages) Replied(script string, key string) {
	if !o.open.Load() {
		return
	}
	now := clock.Now().Mono()
	o.mu.Lock()
	defer o.mu.Unlock()
	for why := range outageCauses {
		if why != late && o.mu.byCause[why].calls > 0 && o.concernsLocked(why, script, key) {
			o.endLocked(why, now)
		}
	}
}

// concernsLocked reports whether the reply to a call shows that an outage is over.
func (o *outages) concernsLocked(why outageCause, script string, key string) bool {
	at, r := &o.mu.byCause[why], o.session.Runner
	switch {
	case r.Clustered() && r.Slot(at.key) != r.Slot(key):
		return false
	case why == unreachable:
		return true
	case why == refused:
		return at.script == script
	}
	return at.script == script && at.key == key
}

func (o *outages) endLocked(why outageCause, now time.Duration) {
	if at := &o.mu.byCause[why]; at.logged {
		o.note(outageMessages[why].ends, "after", (now - at.since).Round(time.Millisecond), "events", at.calls)
	}
	o.mu.byCause[why] = outage{}
	o.updateOpenLocked()
}

func (o *outages) updateOpenLocked() {
	open := o.mu.clock.known
	for why := range outageCauses {
		open = open || o.mu.byCause[why].calls > 0
	}
	o.open.Store(open)
}

// Late notes that the server executed a request for the lock of key too late for it to take effect.
func (o *outages) Late(key string, err error) {
	now := clock.Now().Mono()
	o.failed(late, "", key, now, now, err)
}

// InTime notes that it executed one in time.
func (o *outages) InTime(key string) {
	if !o.open.Load() {
		return
	}
	now := clock.Now().Mono()
	o.mu.Lock()
	defer o.mu.Unlock()
	if at := &o.mu.byCause[late]; at.calls > 0 && at.key == key {
		o.endLocked(late, now)
	}
}

// setBack is a server's clock that was set back. It is over when the clock shows again what it would show otherwise, or has
// come to where it stood before.
type clockStep struct {
	known  bool
	logged bool
	slot   uint16
	offset time.Duration // what it had before, from this host's monotonic clock
	since  time.Duration
	by     time.Duration
}

// Moved implements wire.ClockWatcher.
func (o *outages) Moved(slot uint16, before, offset, now time.Duration) (watches bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	b := &o.mu.clock
	switch {
	case !b.known:
		*b = clockStep{known: true, slot: slot, offset: before, since: now}
		o.open.Store(true)
	case b.slot != slot:
		return true
	}
	b.by = max(b.by, b.offset-offset)
	switch behind := b.offset - offset; {
	case behind < wire.ClockMoved || now-b.since >= behind:
		if b.logged {
			o.note("signalbox: the server's clock shows again what it showed before it was set back", "after", now-b.since)
		}
		*b = clockStep{}
		o.updateOpenLocked()
		return false
	case !b.logged && now-b.since >= silentFor:
		b.logged = true
		o.warn("signalbox: the server's clock was set back; a lock whose holder has crashed stays held for longer by that",
			"by", behind.Round(time.Millisecond), "do", "ForceUnlock, or the command signalbox break, frees such a lock")
	}
	return true
}

// warn writes a line that holds up no call and no renewal. note does the same.
func (o *outages) warn(message string, attributes ...any) {
	o.session.log((*slog.Logger).Warn, message, attributes...)
}

func (o *outages) note(message string, attributes ...any) {
	o.session.log((*slog.Logger).Info, message, attributes...)
}
