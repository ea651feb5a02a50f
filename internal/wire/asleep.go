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
var open struct {
	sync.Mutex
	conns map[*conn]struct{}
}

// asleep is what a connection knows of sleeps. Times are monotonic; 0 is never.
type asleep struct {
	works   atomic.Int64 // when it was made, or when it last proved itself
	doubted atomic.Int64 // since when it has to prove itself
}

// heard says that the connection received something. Mostly that costs a read of a flag.
func (a *asleep) heard() {
	if a.doubted.Load() != 0 {
		a.works.Store(int64(clock.Now().Mono()))
		a.doubted.Store(0)
	}
}

func opened(c *conn) {
	c.sleep.works.Store(int64(clock.Now().Mono()))
	open.Lock()
	defer open.Unlock()
	if open.conns == nil {
		open.conns = make(map[*conn]struct{})
	}
	open.conns[c] = struct{}{}
}

func forget(c *conn) {
	open.Lock()
	defer open.Unlock()
	delete(open.conns, c)
}

// DoubtConnections doubts the connections that were made before, a time of the monotonic clock at which the host was not
// suspended yet. Call CloseSilent after ReplyAfterSleep.
func SuspectConnections(before time.Duration) {
	now := cmp.Or(int64(clock.Now().Mono()), 1)
	open.Lock()
	defer open.Unlock()
	for c := range open.conns {
		if c.sleep.works.Load() < int64(before) {
			c.sleep.doubted.CompareAndSwap(0, now)
		}
	}
}

// CloseSilent closes the connections that were doubted for ReplyAfterSleep and received nothing since. It blocks as long
// as closing does.
func CloseSilentConnections() {
	since := int64(clock.Now().Mono() - ReplyAfterSleep)
	var silent []*conn
	open.Lock()
	for c := range open.conns {
		if doubted := c.sleep.doubted.Load(); doubted != 0 && doubted <= since {
			silent = append(silent, c)
		}
	}
	open.Unlock()
	for _, c := range silent {
		_ = c.Close() // it is given up anyway
	}
}
