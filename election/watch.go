// SPDX-License-Identifier: Apache-2.0

package election

import (
	"errors"
	"slices"
	"time"

	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/dispatch"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/wire"
)

const (
	// pollPatience is how long a batch of polls waits for its replies.
	pollPatience = time.Second
	// maxPolls bounds a pipeline.
	maxPolls = 100
	// silence is how long the server may be silent before observers get the error.
	silence = DefaultLease
)

// watch is one election that goroutines of this session observe. The lock of its realm guards its
// fields, except those that say otherwise.
type watch struct {
	realm *realm
	keys  keys         // assigned once
	next  timers.Timer // the next poll

	users   int
	sent    uint64 // polls so far
	view    view
	changed chan struct{} // closed when view changes, and replaced
	heard   clock.Instant // when the last poll was sent that had a reply
	replied bool          // a poll had one; a right that was there for it may come back
	refused error         // of the last poll, or nil
	young   uint64        // the token of a leader that a poll found before its value; 0 if none did

	changes dispatch.Subscription // guarded by itself
}

// poll is a poll that is under way.
type poll struct {
	watch  *watch
	number uint64
	sent   clock.Instant
}

func isFree(err error) bool { return errors.Is(err, errs.ErrNotHeld) }

// now returns what the watch knows, if a poll with that number or a later one said so, and a channel
// that is closed when that changes.
func (w *watch) now(from uint64) (view, <-chan struct{}) {
	w.realm.mu.Lock()
	defer w.realm.mu.Unlock()
	if w.view.poll < from && !w.view.final {
		return view{}, w.changed
	}
	return w.view, w.changed
}

// refusal returns the error with which the server refused the last poll, or nil.
func (w *watch) refusal() error {
	w.realm.mu.Lock()
	defer w.realm.mu.Unlock()
	return w.refused
}

// showLocked makes v the present view, and wakes the observers.
func (w *watch) showLocked(v view) {
	w.view = v
	close(w.changed)
	w.changed = make(chan struct{})
}

// Fire implements timers.Event: the next poll is due.
func (w *watch) Fire() { w.realm.polls.Put(w) }

// pollAll polls for a tick's worth of elections.
func (r *realm) pollAll(watches []*watch) {
	ctx, cancel := errs.WithTimeout(r.ctx, pollPatience)
	defer cancel()
	for chunk := range slices.Chunk(r.prepare(watches), maxPolls) {
		calls := make([]wire.Call, 0, 2*len(chunk))
		for _, p := range chunk {
			calls = append(calls, asking(p.watch.keys)...)
		}
		outcomes := r.session.Runner.RunMany(ctx, calls)
		for i, p := range chunk {
			p.replied(outcomes[2*i : 2*i+2])
		}
	}
}

// prepare returns a poll for each of these elections that is still observed.
func (r *realm) prepare(watches []*watch) []poll {
	r.mu.Lock()
	defer r.mu.Unlock()
	polls := make([]poll, 0, len(watches))
	asked := make(map[*watch]bool, len(watches))
	for _, w := range watches {
		if !asked[w] && w.users > 0 {
			asked[w] = true
			w.sent++
			polls = append(polls, poll{w, w.sent, clock.Now()})
		}
	}
	return polls
}

// replied handles the replies to a poll. If a later poll had its replies before, these say nothing new.
func (p poll) replied(outcomes []wire.Outcome) {
	leader, held, err := readAll(outcomes)
	w := p.watch
	w.realm.mu.Lock()
	defer w.realm.mu.Unlock()
	if w.users == 0 || w.view.final {
		return
	}
	v := view{leader: leader, poll: p.number}
	w.refused = nil
	switch {
	case err == nil:
		w.heard, w.replied = p.sent, true
		if outcomes[0].Reply.Text(1) != held && w.isYoungLocked(leader.Token) {
			w.scheduleLocked()
			return
		}
	case wire.Judge(err) == wire.Final && (!w.replied || !errors.Is(err, errs.ErrDenied)):
		v.err, v.final = err, true
	default:
		if wire.Judge(err) != wire.Unknown || wire.IsReplyError(err) {
			w.refused = err
		}
		if -w.heard.Until(clock.Now()) < silence {
			w.scheduleLocked()
			return // what was known may still be so
		}
		v.err = err
	}
	if p.number > w.view.poll {
		w.showLocked(v)
	}
	w.scheduleLocked()
}

// isYoungLocked reports whether a leader whose value is missing has just begun, so that its value is not written yet.
// Observers get it with the next poll, with its value: the message about the value brings that forward. If there is
// no value then, it was lost, and they get the leader without it.
func (w *watch) isYoungLocked(token uint64) bool {
	if token == 0 || token == w.view.leader.Token || token == w.young {
		return false
	}
	w.young = token
	return true
}

// scheduleLocked schedules the next poll.
func (w *watch) scheduleLocked() {
	w.realm.session.Timers.Schedule(&w.next, dispatch.JitteredInterval(w.changes.PollInterval(), len(w.realm.mu.watches)))
}

// Subscribed implements dispatch.Hearer: messages before now may be lost.
func (w *watch) OnSubscribed() { w.realm.polls.Put(w) }

// Lost implements dispatch.Hearer: it brings the next poll forward.
func (w *watch) OnUnsubscribed() {
	w.realm.mu.Lock()
	defer w.realm.mu.Unlock()
	if w.users > 0 {
		w.scheduleLocked()
	}
}

// Heard implements dispatch.Hearer. A message is a hint: the server is asked.
func (w *watch) OnMessage(string) { w.realm.polls.Put(w) }
