// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

// The pauses of a waiter that neither polls nor receives messages begin with firstPoll and end with lastPoll.
const firstPoll, lastPoll = 2 * time.Millisecond, 250 * time.Millisecond

// Target is what a wait is for.
type Target struct {
	Channel      string          // the channel on which a release is published
	Key          string          // the lock's key, for polls
	Poll         *scripts.Script // KEYS: locks; ARGV: waiter's id; replies -2 if a try is worth it. nil: only a try finds out
	WaiterID     string          // the id of the waiter that wants a message
	ChannelTypes ChannelTypes    // the channels on which a release is published in a cluster
	Silent       bool            // not every release sends a message
}

// Wait is one waiter's registration. Its methods are for one goroutine; other goroutines wake it.
type Wait struct {
	// C is sent to when trying is worth it. It holds one wake-up; more of them coalesce.
	C chan struct{}

	d        *Dispatcher
	channels [maxChannelsOfName]*channel // the channels whose messages wake the waiter; empty when polling
	target   Target
	entry    timers.Timer // the next poll or wake-up

	// The fields below are guarded by d.mu.
	slots     [maxChannelsOfName]uint32 // where each channel has the wait
	isPoll    bool                      // entry fires for a poll, otherwise for a wake-up
	backedOff bool                      // only the releases of other sessions wake the waiter, until entry fires
	closed    bool
	pauses    uint8
	due       time.Duration // monotonic: when the poll is due
	// lastErr is the error of the last poll, nil after a reply.
	lastErr error
}

// FoundHeld records that the lock was found held, for left at the longest. It schedules the next poll, or a
// wake-up if there are no polls.
func (w *Wait) FoundHeld(left time.Duration) {
	w.d.mu.Lock()
	defer w.d.mu.Unlock()
	w.foundHeldLocked(left)
}

func (w *Wait) foundHeldLocked(left time.Duration) {
	if w.closed {
		return
	}
	w.backedOff, w.lastErr = false, nil
	if w.channels[0] == nil {
		w.isPoll = false
		pause := min(firstPoll<<w.pauses, lastPoll)
		pause = pause/2 + rand.N(pause/2)
		w.pauses = min(w.pauses+1, 10)
		if left >= 0 { // a key without an end is another program's, and has a smaller value
			pause = min(pause, left+time.Millisecond)
		}
		w.d.timers.Schedule(&w.entry, pause)
		return
	}
	w.isPoll = w.target.Poll != nil
	w.scheduleLocked(nextPoll(left, w.baseIntervalLocked(), len(w.d.mu.waits)))
}

// baseIntervalLocked returns the pause between polls while few locks are waited for.
func (w *Wait) baseIntervalLocked() time.Duration {
	if w.target.Silent || slices.ContainsFunc(w.channels[:], func(c *channel) bool { return c != nil && c.state != subscribed }) {
		return UnsubscribedPollInterval
	}
	return PollInterval
}

func (w *Wait) scheduleLocked(pause time.Duration) {
	w.due = timers.Mono() + pause
	w.d.timers.Schedule(&w.entry, pause)
}

// pollSoonerLocked brings the polls of waiters forward that wait for messages of a channel which is
// being lost. The budget holds: with more than a thousand locks to poll, no poll comes earlier.
func (c *channel) pollSoonerLocked() {
	now := timers.Mono()
	for _, w := range c.waits {
		pause := JitteredInterval(UnsubscribedPollInterval, len(c.d.mu.waits))
		if w.isPoll && now+pause < w.due {
			w.scheduleLocked(pause)
		}
	}
}

// LastError returns why the last poll had no reply, or nil.
func (w *Wait) LastError() error {
	w.d.mu.Lock()
	defer w.d.mu.Unlock()
	return w.lastErr
}

// polledHeld records what a poll found: the lock is held for left at the longest, or the poll failed with err. If
// WakeAfter was called while the poll was under way, its wake-up stays: the try that it is for may have acquired the lock
// that the poll found held.
func (w *Wait) polledHeld(left time.Duration, err error) {
	w.d.mu.Lock()
	defer w.d.mu.Unlock()
	if w.isPoll {
		w.foundHeldLocked(left)
		w.lastErr = err
	}
}

// WakeAfter wakes the waiter after pause, whatever else happens.
func (w *Wait) WakeAfter(pause time.Duration) {
	w.d.mu.Lock()
	defer w.d.mu.Unlock()
	if w.closed {
		return
	}
	w.isPoll, w.backedOff, w.lastErr = false, false, nil
	w.d.timers.Schedule(&w.entry, pause)
}

// Fire implements timers.Firer.
func (w *Wait) Fire() {
	w.d.mu.Lock()
	poll := w.isPoll && !w.closed && w.target.Poll != nil
	w.backedOff = false
	w.d.mu.Unlock()
	if poll {
		w.d.polls.Put(w)
		return
	}
	w.wake()
}

// Close ends the registration. Once.
func (w *Wait) Close() { w.d.leave(w) }

// isOwn reports whether a message is about a release by the waiter's own session.
func (w *Wait) isOwn(message string) bool { return strings.HasPrefix(w.target.WaiterID, message) }

func (w *Wait) wake() { signal(w.C) }

const (
	// maxPolls bounds the locks of one poll script, as maxKeys bounds a renewal.
	maxPolls = 100
	// pollPatience is how long a batch of polls waits for its reply; then they count as failed and are
	// repeated.
	pollPatience = 2 * time.Second
)

// ScriptRunner runs polls, and knows the slots of keys; *wire.Runner is one.
type ScriptRunner interface {
	RunMany(ctx context.Context, calls []wire.Call) []wire.Outcome
	RunByKey(ctx context.Context, batch wire.KeyedCall) []wire.KeyedReply
	Clustered() bool
	Slot(key string) uint16
}

// pollAll polls the locks that are due in one tick, and wakes the waiters for which a try is worth it.
func (d *Dispatcher) pollAll(waits []*Wait) {
	ctx, cancel := errs.WithTimeout(d.ctx, pollPatience)
	defer cancel()
	byScript := make(map[*scripts.Script][]*Wait, 1)
	for _, w := range waits {
		byScript[w.target.Poll] = append(byScript[w.target.Poll], w)
	}
	for script, waits := range byScript {
		batch := wire.KeyedCall{Script: script, Shared: []string{waits[0].target.WaiterID}, MaxKeys: maxPolls}
		for _, w := range waits {
			batch.Keys = append(batch.Keys, w.target.Key)
		}
		for i, result := range d.server.RunByKey(ctx, batch) {
			waits[i].onPollReply(result)
		}
	}
}

func (w *Wait) onPollReply(result wire.KeyedReply) {
	switch {
	case result.Err != nil && wire.Judge(result.Err) == wire.Final:
		w.wake() // its own try returns the reason
	case result.Err != nil:
		w.polledHeld(MaxPollInterval, result.Err) // no reply: again in a while
	case result.Value == -2:
		w.wake()
	default:
		w.polledHeld(time.Duration(result.Value)*time.Millisecond, nil)
	}
}

// Messages can be lost, so whatever waits for one polls as well, with these pauses. Only queues spread their polls in a way of
// their own: see nextPollLocked there.
const (
	// PollInterval is the pause between the polls of one name while a session waits for few names.
	PollInterval = time.Second
	// UnsubscribedPollInterval is the same while messages do not arrive, or not all of them.
	UnsubscribedPollInterval = 100 * time.Millisecond
	// PollCost is how much each further name adds to the pause: the budget is a thousand polls a second.
	PollCost = time.Millisecond
	// MaxPollInterval is the longest pause, however many names a session waits for.
	MaxPollInterval = 10 * time.Second
)

// ScaledInterval returns the pause between the polls of one name in a session that waits for so many names. base is the
// pause while they are few: PollInterval or UnsubscribedPollInterval.
func ScaledInterval(base time.Duration, names int) time.Duration {
	return min(max(base, time.Duration(names)*PollCost), MaxPollInterval)
}

// JitteredInterval returns the time to the next poll: ScaledInterval, less up to a fifth of it at random.
func JitteredInterval(base time.Duration, names int) time.Duration {
	every := ScaledInterval(base, names)
	return every*4/5 + rand.N(every/5)
}

// nextPoll returns the time to the next poll of a lock that is held for left at the longest. Polls at the end
// of a holder's key are spread too: a process that dies may have held all of the locks.
func nextPoll(left, base time.Duration, names int) time.Duration {
	if left >= 0 && left < ScaledInterval(base, names) {
		return min(left+time.Millisecond+rand.N(time.Duration(names)*PollCost+1), MaxPollInterval)
	}
	return JitteredInterval(base, names)
}
