// SPDX-License-Identifier: Apache-2.0

package session

import (
	"time"

	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/timers"
)

// FireLate lets a patience end, by the session's timers, that was due so long before.
func FireLate(s *Session, by time.Duration) *Patience {
	p := s.patiencePool.Get().(*Patience) //nolint:forcetypeassert // nothing else is ever put
	p.due = timers.Mono() - by
	s.Timers.Schedule(&p.entry, 0)
	return p
}

// ProcessLabel is the default label.
func ProcessLabel(host string, process int) string { return processLabel(host, process) }

// LateUnsubscribed calls the handler that reports the end of the subscription to recalls, as a reader does that was late.
func LateUnsubscribed(s *Session) { ownChannel(s).OnUnsubscribed() }

// LateSubscribed calls the handler that reports the subscription, as a reader does that was late.
func LateSubscribed(s *Session) { ownChannel(s).OnSubscribed() }

func ownChannel(s *Session) *forceChannel {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.forceListening.own
}

// StartOf is what locks of a kind start from.
func StartOf(s *Settings, kind *proto.Kind) LockSettings { return s.startOf(kind) }
