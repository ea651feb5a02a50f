// SPDX-License-Identifier: Apache-2.0

package election

import (
	"github.com/signalbox-go/signalbox/internal/watch"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// silence is how long the server may be silent before observers get the error.
const silence = DefaultLease

// watchedElection is one election that goroutines of this session observe. The lock of its registry guards the fields
// from latest on.
type watchedElection struct {
	subject watch.Subject
	keys    electionKeys

	latest watch.Latest[Leader] // the zero Leader if no process leads
	young  uint64               // the token of a leader that a poll found before its value, or 0
}

// Subject implements watch.Watched.
func (w *watchedElection) Subject() *watch.Subject { return &w.subject }

// AppendPoll implements watch.Watched.
func (w *watchedElection) AppendPoll(calls []wire.Call) []wire.Call {
	if w.latest.IsFinalLocked() {
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
	w.latest.ReplyLocked(p)
	if replies[0].Reply.Text(1) == held || !w.isYoungLocked(leader.Token) {
		w.latest.ShowLocked(p, leader, nil)
	}
	return false, nil
}

// OnFailure implements watch.Watched.
func (w *watchedElection) OnFailure(p watch.Poll, f watch.Failure) { w.latest.FailLocked(p, f) }

// isYoungLocked reports whether a leader whose value is missing has just begun, so that its value is not written yet.
// Observers get it with the next poll, with its value: the message about the value brings that forward. If there is
// no value then, it was lost, and they get the leader without it.
func (w *watchedElection) isYoungLocked(token uint64) bool {
	if token == 0 || token == w.latest.ValueLocked().Token || token == w.young {
		return false
	}
	w.young = token
	return true
}

// OnMessage implements watch.Watched. A message is a hint: the server is asked.
func (*watchedElection) OnMessage(string) (poll bool) { return true }

// OnClose implements watch.Watched.
func (w *watchedElection) OnClose(err error) { w.latest.CloseLocked(err) }
