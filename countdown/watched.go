// SPDX-License-Identifier: Apache-2.0

package countdown

import (
	"github.com/signalbox-go/signalbox/internal/watch"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// watchedLatch is one latch with a waiter of this session. The lock of its registry guards its rounds and their
// fields, except for those that say otherwise.
type watchedLatch struct {
	subject  watch.Subject
	registry *latchRegistry
	keys     latchKeys
	rounds   map[roundKey]*awaitedRound // the rounds that are waited for
}

// roundKey is what a caller waits for: a round, and, if rounds are anonymous, since when.
type roundKey struct {
	round wire.Stamp
	wait  uint64 // the number of the wait; 0 if rounds have names
}

// awaitedRound is one round that has a waiter.
type awaitedRound struct {
	key  roundKey      // assigned once
	done chan struct{} // closed when the round is over, or waiters are no longer notified
	err  error         // how the round ended; written before done is closed, read after

	users    int    // waiters
	since    uint64 // the number of the first poll after the first waiter came: earlier replies may not know the round yet
	nonce    string // the nonce of an authentic message; "" until the reply to a poll contained it
	reported bool   // a message reported an end, which a poll is to confirm

	fences  []string // what the last polls publish if they find the anonymous round running
	fenced  bool     // a fence was received: an end that is reported from here on may be the end of this round
	changed bool     // a start was reported since the message that set reported
}

// Subject implements watch.Watched.
func (w *watchedLatch) Subject() *watch.Subject { return &w.subject }

// awaitLocked adds a waiter for a round. It reports whether the waiter is the first one.
func (w *watchedLatch) awaitLocked(round wire.Stamp) (a *awaitedRound, first bool) {
	key := roundKey{round: round}
	if w.registry.scripts.AnonymousRounds {
		w.registry.waits++
		key.wait = w.registry.waits
	}
	a = w.rounds[key]
	if first = a == nil; first {
		a = &awaitedRound{key: key, done: make(chan struct{}), since: w.subject.NextPollLocked()}
		w.rounds[key] = a
	}
	a.users++
	return a, first
}

// endLocked wakes all waiters for a round. Later callers wait for another one.
func (w *watchedLatch) endLocked(a *awaitedRound, err error) {
	a.err = err
	close(a.done)
	delete(w.rounds, a.key)
}

// AppendPoll implements watch.Watched.
func (w *watchedLatch) AppendPoll(calls []wire.Call) []wire.Call {
	if len(w.rounds) == 0 {
		return calls // the waiters are about to leave
	}
	return append(calls, w.registry.pollCall(w.keys, w.fenceLocked()))
}

// OnReply implements watch.Watched.
func (w *watchedLatch) OnReply(p watch.Poll, replies []wire.Outcome) (again bool, err error) {
	if err := replies[0].Err; err != nil {
		return false, err
	}
	h, err := parsePollReply(replies[0].Reply)
	if err != nil {
		return false, err
	}
	for key, r := range w.rounds {
		switch state := h.stateOf(key.round); {
		case r.since > p.Number:
		case state != counting:
			w.endLocked(r, state.waitError())
		default:
			again = again || r.nonce == "" && r.reported
			r.nonce = h.newest.nonce
		}
	}
	return again, nil
}

// OnFailure implements watch.Watched.
func (w *watchedLatch) OnFailure(p watch.Poll, f watch.Failure) {
	for _, r := range w.rounds {
		if f.Final && r.since <= p.Number {
			w.endLocked(r, f.Err)
		}
	}
}

// OnClose implements watch.Watched.
func (w *watchedLatch) OnClose(err error) {
	for _, r := range w.rounds {
		w.endLocked(r, err)
	}
}

// OnMessage implements watch.Watched: a message says that a round is over. It is believed if it has the nonce of the round.
func (w *watchedLatch) OnMessage(message string) (poll bool) {
	if w.registry.scripts.AnonymousRounds {
		return w.onAnonymousLocked(message)
	}
	e, ok := parseRecord(message)
	if !ok || e.state == counting {
		return false
	}
	r := w.rounds[roundKey{round: e.stamp}]
	switch {
	case r == nil:
	case r.nonce == "":
		r.reported = true // the reply to the poll under way may be older
	case r.nonce == e.nonce:
		w.endLocked(r, e.state.waitError())
	}
	return false
}
