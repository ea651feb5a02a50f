// SPDX-License-Identifier: Apache-2.0

package acquire

import (
	"fmt"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/queue"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/waitroom"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

// Manager grants and releases the locks of one kind in one session. It makes the tickets in the server's queue, or without a
// queue: one of Queues and Retries is nil.
type Manager struct {
	session.HoldRegistry // the one of the two that there is

	session *session.Session
	kind    *proto.Table

	Queues  *queue.Queues
	Retries *RetryRegistry
	// Renew lengthens the life of holds.
	Renew *scripts.Script
	// Keep is Renew for holds that may be kept while no goroutine uses them; nil if none may.
	Keep *scripts.Script
	// RenewalName returns what renewals call the hold of an attempt.
	RenewalName func(h queue.Hold) string
	// LocalQueues has the queues in which goroutines of the process wait, and counts the users of each.
	LocalQueues *waitroom.Table
	// Turns says for how long holds are handed over inside the process, if the kind hands them over.
	Turns   *TurnPolicy
	recalls *recalls // the locks that another session wanted in vain because this one kept them
	// Share asks whether goroutines may continue to share a hold; nil if none is shared.
	Share *scripts.Script
	// AcquireMany acquires locks together, and ReleaseMany releases holds together; see the functions of these names in
	// package queue. Both are nil if each lock is acquired and released alone.
	AcquireMany, ReleaseMany *scripts.Script
}

// NewManager returns the Manager of the locks of kind in a session. refusal returns the error of a call that asks
// for permits that there are not, or with another capacity; nil means that there are no such calls.
func NewManager(s *session.Session, l *proto.Layout, kind *proto.Table, refusal func(code wire.Code, capacity int64) error) Manager {
	if refusal == nil {
		refusal = unknownReply
	}
	m := Manager{session: s, kind: kind, Renew: kind.Renew, RenewalName: queue.Hold.Name, LocalQueues: waitroom.NewTable(s.Timers), Turns: new(TurnPolicy), recalls: new(recalls)}
	if named := kind.RenewalName; named != nil {
		m.RenewalName = func(h queue.Hold) string { return named(h.Grant().Stamp.Text(), h.Name()) }
	}
	if kind.Retry != nil {
		m.Retries = NewRetryRegistry(s, RetryConfig{Retry: kind.Retry, Keys: kind.Keys, Layout: l, Refusal: refusal})
		m.HoldRegistry = m.Retries
		return m
	}
	m.Turns.Yield, m.Keep = kind.Queue.Yield, kind.Queue.Keep
	if kind.Queue.Requeue != nil {
		m.Turns.handOffCost.Store(int64(initialHandOffCost))
	}
	m.Queues = queue.New(s, queue.Protocol{QueueScripts: kind.Queue, Refusal: refusal})
	m.HoldRegistry = m.Queues
	return m
}

// KeysOf returns the keys of a lock of the kind, and the channel of its messages.
func (m *Manager) KeysOf(n proto.Set) proto.Keys {
	keys := m.kind.Keys(n)
	if m.Queues != nil {
		keys.Channel = m.session.GrantsChannel(n)
	}
	return keys
}

// ApplyGranted handles what a script replied that granted the lock to attempts of this session. Without a queue, a session gets
// the lock only by a try of its own.
func (m *Manager) ApplyGranted(holder string, g proto.Granted) {
	if m.Queues != nil {
		m.Queues.ApplyGranted(holder, g)
	}
}

func unknownReply(code wire.Code, _ int64) error {
	return fmt.Errorf("%w: it replied %d", errs.ErrRefused, code)
}

// Refuse implements session.KindRegistry.
func (m *Manager) Refuse(err error) {
	m.endIdle() // first: an idle hold delays others, and no goroutine waits for it
	m.LocalQueues.Refuse(err)
	m.HoldRegistry.Refuse(err)
}

// Recall implements session.RecallRegistry.
func (m *Manager) Recall(attempt string) {
	if m.Queues != nil {
		m.Queues.Recall(attempt)
	}
}

// Resubscribed implements session.RecallRegistry.
func (m *Manager) Resubscribed() {
	if m.Queues != nil {
		m.Queues.Resubscribed()
	}
}

// RecallAll implements session.RecallRegistry. Holds that are idle now end together.
func (m *Manager) RecallAll() {
	m.endIdle()
	if m.Queues != nil {
		m.Queues.RecallAll()
	}
}
