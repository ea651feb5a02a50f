// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"cmp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/signalbox-go/signalbox/internal/clock"
)

// A host that was suspended has connections that the other side, or a router between, may have forgotten. A call on one
// of them would wait until the client gives the connection up, which takes it seconds. So when a session notices that
// the host was suspended, every connection that was made before has to receive something within ReplyAfterSleep, or is
// closed. A connection without calls is closed too: the next call makes another one.
//
// The connections are those of Connectors in the whole process, since the host sleeps as a whole and a connection does
// not know its client. Several sessions notice one sleep, one after the other. So a connection that was made, or
// received something, after the sleep is left alone.

// ReplyAfterSleep is how long a connection has to receive something after the host was suspended.
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
}

// received records that the connection received something. Mostly that costs a read of a flag.
func (s *sleepCheck) received() {
	if s.suspectedAt.Load() != 0 {
		s.provenAt.Store(int64(clock.Now().Mono()))
		s.suspectedAt.Store(0)
	}
}

func register(c *conn) {
	c.sleepCheck.provenAt.Store(int64(clock.Now().Mono()))
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
// suspended yet. Call CloseSilentConnections after ReplyAfterSleep.
func SuspectConnections(before time.Duration) {
	now := cmp.Or(int64(clock.Now().Mono()), 1)
	openConns.Lock()
	defer openConns.Unlock()
	for c := range openConns.conns {
		if c.sleepCheck.provenAt.Load() < int64(before) {
			c.sleepCheck.suspectedAt.CompareAndSwap(0, now)
		}
	}
}

// CloseSilentConnections closes the connections that were suspected for ReplyAfterSleep and received nothing since.
// It blocks as long as closing does.
func CloseSilentConnections() {
	since := int64(clock.Now().Mono() - ReplyAfterSleep)
	var silent []*conn
	openConns.Lock()
	for c := range openConns.conns {
		if suspected := c.sleepCheck.suspectedAt.Load(); suspected != 0 && suspected <= since {
			silent = append(silent, c)
		}
	}
	openConns.Unlock()
	for _, c := range silent {
		_ = c.Close() // it is given up anyway
	}
}
