// SPDX-License-Identifier: Apache-2.0

package countdown

import (
	"github.com/signalbox-go/signalbox/internal/dispatch"
	"github.com/signalbox-go/signalbox/internal/layout"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/watch"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// latchRegistry holds the state of one session for the count-down latches of one layout: those with waiters.
type latchRegistry struct {
	watch.Registry

	session *session.Session
	layout  *layout.Layout
	scripts *layout.Latch
	types   dispatch.ChannelTypes
	waits   uint64 // the number of waits that share no evidence; guarded by the lock of the registry
	// newEvidence is scripts.NewEvidence, or that of records.
	newEvidence func(round wire.Stamp) layout.Evidence
}

func registryOf(s *session.Session, l *layout.Layout) *latchRegistry {
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
	w, err = watch.Join(&r.Registry, k.latch, watch.Channel{Name: k.ended, Types: r.types}, func() *watchedLatch {
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
	args := r.scripts.PollArgs(fence, r.session.PublishCommandsIn(r.layout), k.ended)
	return wire.Call{Script: r.scripts.Poll, Keys: []string{k.latch}, Args: args}
}
