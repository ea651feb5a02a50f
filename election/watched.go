// SPDX-License-Identifier: Apache-2.0

package election

import (
	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/watch"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// silence is how long the server may be silent before observers get the error.
const silence = DefaultLease

// watchedElection is one election that goroutines of this session observe. The lock of its registry guards the fields
// from latest on.
type watchedElection struct {
	subject  watch.Subject
	registry *electionRegistry
	keys     electionKeys

	latest    observation
	changed   chan struct{} // closed when latest changes, and replaced
	lastReply clock.Instant // when the last poll was sent that had a reply
	young     uint64        // the token of a leader that a poll found before its value, or 0
}

// observation is what a session knows of the leader.
type observation struct {
	leader Leader // the zero Leader if no process leads, or if err is not nil
	err    error  // why the leader is not known
	final  bool   // no later poll changes it
	poll   uint64 // the number of the poll that found it; 0 if no poll did
}

// known reports whether there is anything to yield.
func (o observation) known() bool { return o.poll > 0 }

// sameAs reports whether an observer needs only one of o and other.
func (o observation) sameAs(other observation) bool {
	return o.leader == other.leader && (o.err == nil) == (other.err == nil)
}

// observe returns what the session knows, if a poll with that number or a later one found it, and a channel
// that is closed when that changes.
func (w *watchedElection) observe(from uint64) (observation, <-chan struct{}) {
	w.registry.Lock()
	defer w.registry.Unlock()
	if w.latest.poll < from && !w.latest.final {
		return observation{}, w.changed
	}
	return w.latest, w.changed
}

// showLocked makes o the latest observation, and wakes the observers.
func (w *watchedElection) showLocked(o observation) {
	w.latest = o
	close(w.changed)
	w.changed = make(chan struct{})
}

// Subject implements watch.Watched.
func (w *watchedElection) Subject() *watch.Subject { return &w.subject }

// AppendPoll implements watch.Watched.
func (w *watchedElection) AppendPoll(calls []wire.Call) []wire.Call {
	if w.latest.final {
		return calls
	}
	return appendCalls(calls, w.keys)
}

// OnReply implements watch.Watched. If a later poll had its replies before, these say nothing new.
func (w *watchedElection) OnReply(p watch.Poll, replies []wire.Outcome) (again bool, err error) {
	leader, held, err := readAll(replies)
	if err != nil {
		return false, err
	}
	w.lastReply = p.Sent
	if replies[0].Reply.Text(1) == held || !w.isYoungLocked(leader.Token) {
		w.updateLocked(observation{leader: leader, poll: p.Number})
	}
	return false, nil
}

// OnFailure implements watch.Watched. What was known before may still be so until the server is silent for long.
func (w *watchedElection) OnFailure(p watch.Poll, f watch.Failure) {
	if f.Final || -w.lastReply.Until(clock.Now()) >= silence {
		w.updateLocked(observation{err: f.Err, final: f.Final, poll: p.Number})
	}
}

// updateLocked shows what a poll said, unless a later one did or the latest observation is final.
func (w *watchedElection) updateLocked(o observation) {
	if o.poll > w.latest.poll && !w.latest.final {
		w.showLocked(o)
	}
}

// isYoungLocked reports whether a leader whose value is missing has just begun, so that its value is not written yet.
// Observers get it with the next poll, with its value: the message about the value brings that forward. If there is
// no value then, it was lost, and they get the leader without it.
func (w *watchedElection) isYoungLocked(token uint64) bool {
	if token == 0 || token == w.latest.leader.Token || token == w.young {
		return false
	}
	w.young = token
	return true
}

// OnMessage implements watch.Watched. A message is a hint: the server is asked.
func (*watchedElection) OnMessage(string) (poll bool) { return true }

// OnClose implements watch.Watched.
func (w *watchedElection) OnClose(err error) { w.showLocked(observation{err: err, final: true}) }
