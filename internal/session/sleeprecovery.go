// SPDX-License-Identifier: Apache-2.0

package session

import (
	"time"

	"github.com/signalbox-go/signalbox/internal/observe"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// longSleep is the shortest suspension after which connections have to prove themselves.
const longSleep = time.Second

// sleepRecovery does what a session has to do after its host was suspended, beside what the timers do by themselves: leases
// that are over end, and those that are due are renewed. A wall clock that was set forward seems the same, and costs
// the idle connections.
type sleepRecovery struct {
	session *Session
	entry   timers.Timer // closes the connections that stay silent
	silent  *timers.Collector[struct{}]
}

func (s *sleepRecovery) init(session *Session) {
	s.session = session
	s.entry.Init(s)
	s.silent = timers.NewCollector(session.Timers, func([]struct{}) {
		if again := wire.CloseSilentConnections(); again > 0 {
			session.Timers.Schedule(&s.entry, again)
		}
	})
	session.Timers.OnSuspended(s.slept)
}

// slept is called on the goroutine of the timers.
func (s *sleepRecovery) slept(sleep timers.Suspension) {
	if sleep.Lasted < longSleep {
		return
	}
	s.session.Logs.slept.add(observe.Labels{}, "lasted", sleep.Lasted.Round(time.Millisecond))
	wire.SuspectConnections(sleep.Before)
	s.session.Timers.Schedule(&s.entry, wire.ReplyAfterSleep)
}

// Fire implements timers.Firer. Closing a connection may block, and has a goroutine of its own.
func (s *sleepRecovery) Fire() { s.silent.Put(struct{}{}) }
