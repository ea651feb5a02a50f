// SPDX-License-Identifier: Apache-2.0

package session

import (
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/observe"
	"github.com/signalbox-go/signalbox/internal/timers"
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
	// quietFor and forgottenFor are how long no call has failed when any call shows that an outage is over: one that concerns
	// all calls, and one that concerns those that write. A waiter tries again within a second.
	quietFor, forgottenFor = 3 * time.Second, time.Minute
	// minWait is the least wait of a call, cut short by its caller's context, that counts as a failure of the server.
	minWait = 100 * time.Millisecond
)

// outageCause is why calls fail, and are tried again.
type outageCause int

const (
	unreachable outageCause = iota // there is no connection, or no reply
	refused                        // the server, or a proxy, refuses
	denied                         // a right is missing
	never                          // calls fail on this server however often they are sent
	late                           // requests arrive too late, by the server's clock
	unheard                        // no messages arrive
	outageCauses
)

// outageMessages are what the log says of each cause: when it has lasted for a while, and when it is over.
//
//nolint:gochecknoglobals // a constant table
var outageMessages = [outageCauses]struct{ begins, ends string }{
	unreachable: {
		"signalbox: the server cannot be reached; calls are tried again, and leases that are not renewed are lost",
		"signalbox: the server can be reached again",
	},
	refused: {
		"signalbox: the server refuses calls; they are tried again, and leases that are not renewed are lost",
		"signalbox: the server accepts calls again",
	},
	denied: {
		"signalbox: the server denies a right; calls that wait for it are tried again, and leases that are not renewed are lost",
		"signalbox: the server grants the right again",
	},
	never: {
		"signalbox: calls fail on this server however often they are sent; they are given up, and leases that are not renewed are lost",
		"signalbox: such calls succeed again",
	},
	late: {
		"signalbox: requests arrive at the server too late to take effect; they are tried again",
		"signalbox: requests arrive in time again",
	},
	unheard: {
		"signalbox: no unlock messages arrive; waiters poll, about once a second",
		"signalbox: unlock messages arrive again",
	},
}

// adviceOf says what to do about a failure that lasts.
func adviceOf(cause outageCause, err error) string {
	switch cause { //nolint:exhaustive // the others depend on the error
	case never:
		return "do what the error says"
	case late:
		return "check how long a request takes, and that the clocks of all servers behind the address agree"
	}
	return wire.Remedy(err)
}

// outages logs that calls fail for longer than waiters should wait in silence, once for each cause and remedy, and that they succeed
// again. A failure that a call has returned is logged at once. It is notified of the outcome of every call of its session, so it covers waiters, polls, renewals and releases of all
// kinds, and a caller that tries again by itself. It has a goroutine only to write a line, and a timer only while
// messages are missing: a waiter tries again within a second, and its next failure is the occasion.
//
// An outage is over when a call succeeds that it concerns: for want of a connection that is any call, in a cluster one of the
// same slot; otherwise a call of the script, and if a right is missing of the key, that failed first. That call may not be made again.
// So it is also any call if none has failed for a while, unless a right is missing.
type outages struct {
	session *Session
	open    atomic.Bool // an outage or a clock that was set back is known; to be read without the lock

	mu struct {
		sync.Mutex
		byCause [outageCauses]outage
		clock   clockStep

		messages      error         // why no messages arrive; nil if they do
		messagesSince time.Duration // the time from which they do, or do not
	}
	entry timers.Timer // the instant at which messages have been missing, or have been back, for silentFor
}

// outage is one cause for which calls fail. The zero outage is over.
type outage struct {
	calls    int           // the number of failed calls
	since    time.Duration // when the first failed call began, on the monotonic clock, as all times here
	last     time.Duration // when the last call failed
	advice   []string      // what the log has said to do; it is empty if the outage was not logged
	loggedAt time.Duration // when the outage was logged last
	general  bool          // reports that the server has refused all scripts, and none for what it does

	// script and key are those of the sample call; sampled is when it failed last.
	script  string
	key     string
	sampled time.Duration
}

// Failed implements wire.Watcher. The call began at began, and its caller does not want it any more if ended is true.
func (o *outages) Failed( //nolint:revive // ended is a fact, not a switch
	script string, key string, began time.Duration, err error, ended bool,
) {
	o.session.connFailures.check()
	now := timers.Mono()
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
	case errors.Is(err, errs.ErrUnsupported), errors.Is(err, errs.ErrBadOption) && wire.Judge(err) == wire.Final:
		return never, true
	case wire.Judge(err) == wire.Final:
		return 0, false
	case wire.IsReplyError(err), errors.Is(err, errs.ErrRefused), errors.Is(err, wire.ErrUnreadable):
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
		if current.calls == 0 && len(gone.advice) == 0 {
			current.since = gone.since // a server that comes back refuses at first: it is one wait
		}
		o.endLocked(unreachable, now)
	}
	current.calls++
	current.last, current.general = now, (current.calls == 1 || current.general) && wire.RefusesAll(err)
	if current.calls == 1 || current.script == script && current.key == key || now-current.sampled > sampleFor {
		current.script, current.key, current.sampled = script, key, now
	}
	lapsed := cause == denied && wire.Judge(err) == wire.Temporary
	if lapsed && now-current.loggedAt >= logAgain {
		current.advice = nil
	}
	if lapsed || cause == never || now-current.since >= silentFor {
		o.logLocked(cause, err, now)
	}
}

// maxAdvice bounds how many lines one outage has before its end, if its reason changes: a server that was away loads its data next.
const maxAdvice = 4

// logLocked logs an outage, unless the log has said already what to do about it.
func (o *outages) logLocked(cause outageCause, err error, now time.Duration, about ...any) {
	current, advice := &o.mu.byCause[cause], adviceOf(cause, err)
	if slices.Contains(current.advice, advice) || len(current.advice) == maxAdvice {
		return
	}
	current.advice, current.loggedAt = append(current.advice, advice), now
	o.warn(outageMessages[cause].begins, append(about,
		"error", err, "do", advice, "for", (now-current.since).Round(time.Millisecond), "events", current.calls)...)
}

// returned notes that the operation op has returned a refusal to its caller, who need not wait in silence any more.
func (o *outages) returned(labels observe.Labels, op string, err error) {
	cause, isOutage := causeOf(err)
	if !isOutage {
		return
	}
	now := timers.Mono()
	o.mu.Lock()
	defer o.mu.Unlock()
	current := &o.mu.byCause[cause]
	if current.calls == 0 {
		*current = outage{calls: 1, since: now, last: now, general: wire.RefusesAll(err)}
		o.open.Store(true)
	}
	o.logLocked(cause, err, now, append(attributesFor(labels), "op", op)...)
}

// messagesLost notes that no messages arrive. If the server refuses them, they do not come back by themselves, and the log says so at
// once. They count as lost until they have arrived for a while: a subscription that breaks again and again is one outage.
func (o *outages) messagesLost(err error) {
	now := timers.Mono()
	o.mu.Lock()
	defer o.mu.Unlock()
	current := &o.mu.byCause[unheard]
	if current.calls == 0 {
		current.since = now
	}
	current.calls++
	current.last, o.mu.messages, o.mu.messagesSince = now, err, now
	if wire.IsReplyError(err) || now-current.since >= silentFor && o.mu.byCause[unreachable].calls == 0 {
		o.logLocked(unheard, err, now)
	}
	o.session.Timers.Schedule(&o.entry, silentFor)
}

// messagesBack notes that messages arrive.
func (o *outages) messagesBack() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mu.messages, o.mu.messagesSince = nil, timers.Mono()
	if o.mu.byCause[unheard].calls > 0 {
		o.session.Timers.Schedule(&o.entry, silentFor)
	}
}

// Fire implements timers.Firer: messages have been missing, or have been back, for a while. While no call has a reply, that is the reason,
// and is logged by itself.
func (o *outages) Fire() {
	now := timers.Mono()
	o.mu.Lock()
	defer o.mu.Unlock()
	current, err := &o.mu.byCause[unheard], o.mu.messages
	switch {
	case current.calls == 0:
	case err != nil && o.mu.byCause[unreachable].calls > 0:
		o.session.Timers.Schedule(&o.entry, silentFor)
	case err != nil:
		o.logLocked(unheard, err, now)
	default:
		o.endLocked(unheard, now)
	}
}

// Replied implements wire.Watcher.
func (o *outages) Replied(script string, key string) {
	o.session.connFailures.check()
	if !o.open.Load() {
		return
	}
	now := timers.Mono()
	o.mu.Lock()
	defer o.mu.Unlock()
	for cause := range outageCauses {
		if cause != late && cause != unheard && o.mu.byCause[cause].calls > 0 && o.concernsLocked(cause, script, key) {
			o.endLocked(cause, now)
		}
	}
}

// concernsLocked reports whether the reply to a call shows that an outage is over.
func (o *outages) concernsLocked(cause outageCause, script string, key string) bool {
	current, r := &o.mu.byCause[cause], o.session.Runner
	quiet := timers.Mono() - current.last
	switch {
	case r.Clustered() && r.Slot(current.key) != r.Slot(key):
		return false
	case cause == unreachable, current.general && quiet >= quietFor:
		return true
	case cause == refused:
		return current.script == script || quiet >= forgottenFor
	}
	return current.script == script && current.key == key
}

func (o *outages) endLocked(cause outageCause, now time.Duration) {
	if current := &o.mu.byCause[cause]; len(current.advice) > 0 {
		o.note(outageMessages[cause].ends, "after", (now - current.since).Round(time.Millisecond), "events", current.calls)
	}
	o.mu.byCause[cause] = outage{}
	o.updateOpenLocked()
}

func (o *outages) updateOpenLocked() {
	open := o.mu.clock.known
	for cause := range outageCauses {
		open = open || cause != unheard && o.mu.byCause[cause].calls > 0
	}
	o.open.Store(open)
}

// Late notes that the server executed a request for the lock of key too late for it to take effect.
func (o *outages) Late(key string, err error) {
	now := timers.Mono()
	o.failed(late, "", key, now, now, err)
}

// InTime notes that it executed one in time.
func (o *outages) InTime(key string) {
	if !o.open.Load() {
		return
	}
	now := timers.Mono()
	o.mu.Lock()
	defer o.mu.Unlock()
	if current := &o.mu.byCause[late]; current.calls > 0 && current.key == key {
		o.endLocked(late, now)
	}
}

// oldServer stands for the script of calls that a server is too old for. These calls are not sent.
const oldServer = "old server"

// tooOld notes that the server that has key is too old, and returns err, which says so.
func (o *outages) tooOld(key string, err error) error {
	now := timers.Mono()
	o.failed(never, oldServer, o.ofNode(key), now, now, err)
	return err
}

// newEnough notes that it is not.
func (o *outages) newEnough(key string) {
	o.Replied(oldServer, o.ofNode(key))
}

// ofNode returns key in a cluster, and elsewhere the same key for all.
func (o *outages) ofNode(key string) string {
	if o.session.Runner.Clustered() {
		return key
	}
	return ""
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
		o.warn("signalbox: the server's clock was set back; a lock whose holder has crashed stays held for a lease more",
			"by", behind.Round(time.Millisecond),
			"do", "adjust clocks slowly; in the layouts of others such a lock stays held for longer by all of that: signalbox break frees it")
	}
	return true
}

// warn writes a line that holds up no call and no renewal. note does the same.
func (o *outages) warn(message string, attributes ...any) {
	o.session.Logs.log((*slog.Logger).Warn, message, attributes...)
}

func (o *outages) note(message string, attributes ...any) {
	o.session.Logs.log((*slog.Logger).Info, message, attributes...)
}
