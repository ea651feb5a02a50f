// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/signalbox-go/signalbox/internal/timers"
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
