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

// ReplyAfterSleep is how long a connection has to prove itself after the host was suspended.
const ReplyAfterSleep = 250 * time.Millisecond

//nolint:gochecknoglobals // see above; guarded by its lock
var openConns struct {
	sync.Mutex
	conns map[*conn]struct{}
}

// sleepCheck is what a connection knows of sleeps. Times are monotonic; 0 is never.
type sleepCheck struct {
	provenAt    atomic.Int64 // when it was made, or when it last proved itself
	suspectedAt atomic.Int64 // since when it has to prove itself
}

// received says that the connection received something. Mostly that costs a read of a flag.
func (a *sleepCheck) received() {
	if a.suspectedAt.Load() != 0 {
		a.provenAt.Store(int64(clock.Now().Mono()))
		a.suspectedAt.Store(0)
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

// SuspectConnections doubts the connections that were made before, a time of the monotonic clock at which the host was not
// suspended yet. Call CloseSilent after ReplyAfterSleep.
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

// CloseSilentConnections closes the connections that were doubted for ReplyAfterSleep and received nothing since. It blocks as long
// as closing does.
func CloseSilentConnections() {
	since := int64(clock.Now().Mono() - ReplyAfterSleep)
	var silent []*conn
	openConns.Lock()
	for c := range openConns.conns {
		if doubted := c.sleepCheck.suspectedAt.Load(); doubted != 0 && doubted <= since {
			silent = append(silent, c)
		}
	}
	openConns.Unlock()
	for _, c := range silent {
		_ = c.Close() // it is given up anyway
	}
}
