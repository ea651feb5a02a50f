// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"cmp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/signalbox-go/signalbox/internal/timers"
)

// A host that was suspended has connections that the other side, or a router between, may have forgotten. A call on one
// of them would wait until the client gives the connection up, which takes it seconds. So when a session notices that
// the host was suspended, every connection that was made before has to receive something within ReplyAfterSleep, or is
// closed. A call that is sent meanwhile has that long from its sending on. A connection without calls is given up too: the
// next call makes another one, and so does a call that comes in the same instant.
//
// The connections are those of Connectors in the whole process, since the host sleeps as a whole and a connection does
// not know its client. Several sessions notice one sleep, one after the other. So a connection that was made, or
// received something, after the sleep is left alone.

// ReplyAfterSleep is how long a connection has to receive something after the host was suspended, or after a call was sent
// on it since.
const ReplyAfterSleep = 250 * time.Millisecond

// openConns are the open connections of all Connectors.
//
//nolint:gochecknoglobals // see above; guarded by its lock
var openConns struct {
	sync.Mutex
	conns map[*conn]struct{}
}

// sleepCheck records whether a connection works after the host was suspended. Times are monotonic; 0 is never.
type sleepCheck struct {
	provenAt    atomic.Int64 // the time at which the connection was made, or received something after a suspicion
	suspectedAt atomic.Int64 // the time since which the connection has to receive something
	sentAt      atomic.Int64 // the time of the first request that was sent after a suspicion, if no reply was due then
}

// sending records that a request is sent while no reply is due. Mostly that costs a read of a flag.
func (s *sleepCheck) sending() {
	at := s.suspectedAt.Load()
	if at == 0 {
		return
	}
	if sent := s.sentAt.Load(); sent == 0 || sent < at {
		s.sentAt.Store(cmp.Or(int64(timers.Mono()), 1))
	}
}

// dueAt returns the time until which the connection has to receive something, or 0 if it is not suspected.
func (s *sleepCheck) dueAt() int64 {
	at := s.suspectedAt.Load()
	if at == 0 {
		return 0
	}
	if sent := s.sentAt.Load(); sent != 0 {
		at = max(at, sent)
	}
	return cmp.Or(at+int64(ReplyAfterSleep), 1)
}

// received records that the connection received something. Mostly that costs a read of a flag.
func (s *sleepCheck) received() {
	if s.suspectedAt.Load() != 0 {
		s.provenAt.Store(int64(timers.Mono()))
		s.suspectedAt.Store(0)
	}
}

func register(c *conn) {
	c.sleepCheck.provenAt.Store(int64(timers.Mono()))
	openConns.Lock()
	defer openConns.Unlock()
	if openConns.conns == nil {
		openConns.conns = make(map[*conn]struct{})
	}
	openConns.conns[c] = struct{}{}
}

func unregister(c *conn) {
	openConns.Lock()
	defer openConns.Unlock()
	delete(openConns.conns, c)
}

// SuspectConnections suspects the connections that were made before, a time of the monotonic clock at which the host was not
// suspended yet. Call CloseSilentConnections after ReplyAfterSleep, and again as it says.
func SuspectConnections(before time.Duration) {
	now := cmp.Or(int64(timers.Mono()), 1)
	openConns.Lock()
	defer openConns.Unlock()
	for c := range openConns.conns {
		if c.sleepCheck.provenAt.Load() < int64(before) {
			c.sleepCheck.suspectedAt.CompareAndSwap(0, now)
		}
	}
}

// CloseSilentConnections closes the connections that had to receive something by now, and did not. It returns how long after
// this to call it again, or 0 if no connection is suspected any more. It blocks as long as closing does.
func CloseSilentConnections() (again time.Duration) {
	now := int64(timers.Mono())
	var silent []*conn
	openConns.Lock()
	for c := range openConns.conns {
		switch due := c.sleepCheck.dueAt(); {
		case due == 0:
		case due <= now:
			silent = append(silent, c)
		default:
			again = max(again, time.Duration(due-now))
		}
	}
	openConns.Unlock()
	for _, c := range silent {
		c.endSilent()
	}
	return again
}

// endSilent closes a connection that stayed silent. One on which no reply is due drains first: a call that comes in this
// instant is not sent on it, and is sent on the next one.
func (c *conn) endSilent() {
	c.mu.Lock()
	drains := c.idleLocked() && !c.mu.subscribed
	c.mu.Unlock()
	if drains {
		c.drain(errUnsent)
		return
	}
	_ = c.Close() // it is given up anyway
}
