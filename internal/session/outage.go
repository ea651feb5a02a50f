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
	// logAgain is how often the log repeats that a right is missing which was there before.
	logAgain = time.Minute
	// forgetAfter is how long after its last failure an outage counts as another one: its call was not made again.
	forgetAfter = 15 * time.Minute
	// sampleFor is how long an outage keeps its sample call without a failure of that call.
	sampleFor = 10 * time.Second
	// minWait is the least wait of a call, cut short by its caller's context, that counts as a failure of the server.
	minWait = 100 * time.Millisecond
)

// outageCause is why calls fail, and are tried again.
type outageCause int

const (
	unreachable outageCause = iota // there is no connection, or no reply
	refused                        // the server, or a proxy, refuses
	denied                         // a right is missing
	late                           // requests arrive too late, by the server's clock
	outageCauses
)

// outageMessages are what the log says of each cause: when it has lasted for a while, what to do, and when it is over.
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
// again. It is notified of the outcome of every call of its session, so it covers waiters, polls, renewals and releases of all
// kinds, and a caller that tries again by itself. It has no timer, and a goroutine only to write a line: a waiter
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
	calls    int           // the number of failed calls
	since    time.Duration // when the first failed call began, on the monotonic clock, as all times here
	last     time.Duration // when the last call failed
	logged   bool          // the outage was logged
	loggedAt time.Duration // when the outage was logged last

	// script and key are those of the sample call; sampled is when it failed last.
	script  string
	key     string
	sampled time.Duration
}

// Failed implements wire.Watcher. The call began at began, and its caller does not want it any more if ended is true.
func (o *outages) Failed( //nolint:revive // ended is a fact, not a switch
	script string, key string, began time.Duration, err error, ended bool,
) {
	o.session.connTroubles.check()
	now := clock.Mono()
	cause, isOutage := causeOf(err)
	if !isOutage || ended && cause == unreachable && now-began < minWait {
		return
	}
	if ended && cause == unreachable {
		err = errs.NoReply(now - began) // and not the end of a context that is no reader's
	}
	o.failed(cause, script, key, began, now, err)
}

// causeOf returns why a call failed. isOutage is false if the log has nothing to say about it.
func causeOf(err error) (cause outageCause, isOutage bool) {
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

func (o *outages) failed(cause outageCause, script string, key string, began, now time.Duration, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.open.Store(true)
	current := &o.mu.byCause[cause]
	if current.calls > 0 && now-current.last > forgetAfter {
		*current = outage{}
	}
	if current.calls == 0 {
		current.since = began
	}
	if gone := &o.mu.byCause[unreachable]; cause != unreachable && gone.calls > 0 && o.concernsLocked(unreachable, script, key) {
		if current.calls == 0 && !gone.logged {
			current.since = gone.since // a server that comes back refuses at first: it is one wait
		}
		o.endLocked(unreachable, now)
	}
	current.calls++
	current.last = now
	if current.calls == 1 || current.script == script && current.key == key || now-current.sampled > sampleFor {
		current.script, current.key, current.sampled = script, key, now
	}
	lapsed := cause == denied && wire.Judge(err) == wire.Temporary
	switch {
	case !current.logged && (lapsed || now-current.since >= silentFor), lapsed && now-current.loggedAt >= logAgain:
		current.logged, current.loggedAt = true, now
		o.warn(outageMessages[cause].begins, "error", err, "do", outageMessages[cause].advice, "for", (now - current.since).Round(time.Millisecond), "events", current.calls)
	}
}

// Replied implements wire.Watcher.
func (o *outages) Replied(script string, key string) {
	o.session.connTroubles.check()
	if !o.open.Load() {
		return
	}
	now := clock.Mono()
	o.mu.Lock()
	defer o.mu.Unlock()
	for cause := range outageCauses {
		if cause != late && o.mu.byCause[cause].calls > 0 && o.concernsLocked(cause, script, key) {
			o.endLocked(cause, now)
		}
	}
}

// concernsLocked reports whether the reply to a call shows that an outage is over.
func (o *outages) concernsLocked(cause outageCause, script string, key string) bool {
	current, r := &o.mu.byCause[cause], o.session.Runner
	switch {
	case r.Clustered() && r.Slot(current.key) != r.Slot(key):
		return false
	case cause == unreachable:
		return true
	case cause == refused:
		return current.script == script
	}
	return current.script == script && current.key == key
}

func (o *outages) endLocked(cause outageCause, now time.Duration) {
	if current := &o.mu.byCause[cause]; current.logged {
		o.note(outageMessages[cause].ends, "after", (now - current.since).Round(time.Millisecond), "events", current.calls)
	}
	o.mu.byCause[cause] = outage{}
	o.updateOpenLocked()
}

func (o *outages) updateOpenLocked() {
	open := o.mu.clock.known
	for cause := range outageCauses {
		open = open || o.mu.byCause[cause].calls > 0
	}
	o.open.Store(open)
}

// Late notes that the server executed a request for the lock of key too late for it to take effect.
func (o *outages) Late(key string, err error) {
	now := clock.Mono()
	o.failed(late, "", key, now, now, err)
}

// InTime notes that it executed one in time.
func (o *outages) InTime(key string) {
	if !o.open.Load() {
		return
	}
	now := clock.Mono()
	o.mu.Lock()
	defer o.mu.Unlock()
	if current := &o.mu.byCause[late]; current.calls > 0 && current.key == key {
		o.endLocked(late, now)
	}
}

// clockStep is a server's clock that was set back. It is over when the clock shows again what it would show otherwise, or has
// reached again what it showed before.
type clockStep struct {
	known  bool
	logged bool
	slot   uint16
	offset time.Duration // the offset before the step, from this host's monotonic clock
	since  time.Duration
	by     time.Duration
}

// Moved implements wire.ClockWatcher.
func (o *outages) Moved(slot uint16, before, offset, now time.Duration) (watches bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	step := &o.mu.clock
	switch {
	case !step.known:
		*step = clockStep{known: true, slot: slot, offset: before, since: now}
		o.open.Store(true)
	case step.slot != slot:
		return true
	}
	step.by = max(step.by, step.offset-offset)
	switch behind := step.offset - offset; {
	case behind < wire.ClockMoved || now-step.since >= behind:
		if step.logged {
			o.note("signalbox: the server's clock shows again what it showed before it was set back", "after", now-step.since)
		}
		*step = clockStep{}
		o.updateOpenLocked()
		return false
	case !step.logged && now-step.since >= silentFor:
		step.logged = true
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
