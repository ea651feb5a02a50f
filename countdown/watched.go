// SPDX-License-Identifier: Apache-2.0

package countdown

import (
	"github.com/signalbox-go/signalbox/internal/notify"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// latchRegistry holds the state of one session for the count-down latches of one layout: those with waiters.
type latchRegistry struct {
	notify.Registry

	session *session.Session
	layout  *proto.Layout
	scripts *proto.LatchTable
	types   notify.ChannelTypes
	waits   uint64 // the number of waits that share no evidence; guarded by the lock of the registry
	// newEvidence is scripts.NewEvidence, or that of records.
	newEvidence func(round wire.Stamp) proto.Evidence
}

func registryOf(s *session.Session, l *proto.Layout) *latchRegistry {
	return session.RegistryOf(s, l.Latch.RegistryName, func() *latchRegistry {
		r := &latchRegistry{session: s, layout: l, scripts: l.Latch, types: session.ChannelTypesOf(l), newEvidence: newRecordEvidence}
		if l.Latch.NewEvidence != nil {
			r.newEvidence = l.Latch.NewEvidence
		}
		r.Init(s.Timers, s.Dispatch, s.Runner)
		return r
	})
}

// join adds a waiter. The first waiter of a round makes sure that its end is noticed; messages and polls
// from then on count for the later waiters too, unless waiters share no evidence: then every waiter is a
// first one.
func (r *latchRegistry) join(k latchKeys, round wire.Stamp) (w *watchedLatch, a *awaitedRound, err error) {
	w, err = notify.Join(&r.Registry, k.latch, notify.Channel{Name: k.ended, Types: r.types}, func() *watchedLatch {
		return &watchedLatch{registry: r, keys: k, rounds: make(map[roundKey]*awaitedRound)}
	}, func(w *watchedLatch) (poll bool) {
		a, poll = w.awaitLocked(round)
		return poll
	})
	return w, a, err
}

// leave removes a waiter.
func (r *latchRegistry) leave(w *watchedLatch, a *awaitedRound) {
	r.Lock()
	a.users--
	if a.users == 0 && w.rounds[a.key] == a {
		delete(w.rounds, a.key)
	}
	r.Unlock()
	w.subject.Leave()
}

// pollCall returns the call that asks for the history of a latch.
func (r *latchRegistry) pollCall(k latchKeys, fence string) wire.Call {
	call := wire.Call{Script: r.scripts.Poll, Keys: []string{k.latch}}
	if r.scripts.PollArgs != nil {
		call.Args = r.scripts.PollArgs(proto.CountdownPoll{Fence: fence, Publish: r.publish(k)}, nil)
	}
	return call
}

// publish says how scripts notify those that wait for a latch.
func (r *latchRegistry) publish(k latchKeys) proto.Publish {
	return proto.Publish{Verb: r.session.PublishCommandsIn(r.layout), Channel: k.ended}
}

// watchedLatch is one latch with a waiter of this session. The lock of its registry guards its rounds and their
// fields, except for those that say otherwise.
type watchedLatch struct {
	subject  notify.Subject
	registry *latchRegistry
	keys     latchKeys
	rounds   map[roundKey]*awaitedRound // the rounds that are waited for
}

// roundKey is what a caller waits for: a round, and, if waiters share no evidence, since when.
type roundKey struct {
	round wire.Stamp
	wait  uint64 // the number of the wait; 0 if waiters share their evidence
}

// awaitedRound is one round that has a waiter.
type awaitedRound struct {
	key  roundKey      // assigned once
	done chan struct{} // closed when the round is over, or waiters are no longer notified
	err  error         // how the round ended; written before done is closed, read after

	users    int    // waiters
	since    uint64 // the number of the first poll after the first waiter came: earlier replies may not know the round yet
	evidence proto.Evidence
}

// Subject implements notify.Watched.
func (w *watchedLatch) Subject() *notify.Subject { return &w.subject }

// awaitLocked adds a waiter for a round. It reports whether the waiter is the first one.
func (w *watchedLatch) awaitLocked(round wire.Stamp) (a *awaitedRound, first bool) {
	key := roundKey{round: round}
	if w.registry.scripts.SoleRound != 0 {
		w.registry.waits++
		key.wait = w.registry.waits
	}
	a = w.rounds[key]
	if first = a == nil; first {
		a = &awaitedRound{key: key, done: make(chan struct{}), since: w.subject.NextPollLocked(), evidence: w.registry.newEvidence(round)}
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

// AppendPoll implements notify.Watched.
func (w *watchedLatch) AppendPoll(calls []wire.Call) []wire.Call {
	if len(w.rounds) == 0 {
		return calls // the waiters are about to leave
	}
	fence := ""
	if !w.subject.IsUnsubscribedLocked() {
		for _, r := range w.rounds {
			fence = r.evidence.Fence(fence)
		}
	}
	return append(calls, w.registry.pollCall(w.keys, fence))
}

// OnReply implements notify.Watched.
func (w *watchedLatch) OnReply(p notify.Poll, replies []wire.Outcome) (again bool, err error) {
	if err := replies[0].Err; err != nil {
		return false, err
	}
	h, err := parsePollReply(&replies[0].Reply)
	if err != nil {
		return false, err
	}
	for key, r := range w.rounds {
		switch state := h.stateOf(key.round); {
		case r.since > p.Number:
		case state != counting:
			w.endLocked(r, state.waitError())
		default:
			again = r.evidence.OnRunning(h.newest.nonce) || again
		}
	}
	return again, nil
}

// OnFailure implements notify.Watched.
func (w *watchedLatch) OnFailure(p notify.Poll, f notify.Failure) {
	for _, r := range w.rounds {
		if f.Final && r.since <= p.Number {
			w.endLocked(r, f.Err)
		}
	}
}

// OnClose implements notify.Watched.
func (w *watchedLatch) OnClose(err error) {
	for _, r := range w.rounds {
		w.endLocked(r, err)
	}
}

// OnMessage implements notify.Watched.
func (w *watchedLatch) OnMessage(message string) (poll bool) {
	for _, r := range w.rounds {
		poll = r.evidence.OnMessage(message, func(err error) { w.endLocked(r, err) }) || poll
	}
	return poll
}

// recordEvidence is the evidence of rounds whose messages are records. A record is believed if it has the nonce of the round. It
// implements proto.Evidence.
type recordEvidence struct {
	round    wire.Stamp
	nonce    string // the nonce of an authentic record; "" until the reply to a poll contained it
	reported bool   // a record reported an end before the nonce was known: a poll is to confirm it
}

func newRecordEvidence(round wire.Stamp) proto.Evidence { return &recordEvidence{round: round} }

// Fence implements proto.Evidence.
func (*recordEvidence) Fence(fence string) string { return fence }

// OnRunning implements proto.Evidence.
func (e *recordEvidence) OnRunning(nonce string) (again bool) {
	again = e.nonce == "" && e.reported
	e.nonce = nonce
	return again
}

// OnMessage implements proto.Evidence.
func (e *recordEvidence) OnMessage(message string, end func(err error)) (poll bool) {
	record, ok := parseRecord(message)
	switch {
	case !ok || record.state == counting || record.stamp != e.round:
	case e.nonce == "":
		e.reported = true // the reply to the poll under way may be older
	case e.nonce == record.nonce:
		end(record.state.waitError())
	}
	return false
}
