// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"net"
	"sync/atomic"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// wire is the connections of one client. Each is a pipe to another pipe, so that what passes
// can be delayed or swallowed, and that the deadlines that a client sets work as ever.
type wire struct {
	swallowsReplies, swallowsRequests atomic.Bool
	latency                           atomic.Int64 // in each direction
}

func (w *wire) dial(redis *miniredis.Miniredis) (net.Conn, error) {
	inner, err := redis.Dial()
	if err != nil {
		return nil, err
	}
	client, outer := net.Pipe()
	go w.pump(outer, inner, &w.swallowsRequests)
	go w.pump(inner, outer, &w.swallowsReplies)
	return client, nil
}

// dead swallows everything from now on, on the connections that are there and on new ones.
func (w *wire) dead() {
	w.swallowsRequests.Store(true)
	w.swallowsReplies.Store(true)
}

// parcel is something that arrives when it is due.
type parcel struct {
	data []byte
	due  time.Time
}

// pump passes on what it reads, until either end is closed, and then closes both.
func (w *wire) pump(from, to net.Conn, swallows *atomic.Bool) {
	parcels := make(chan parcel, 4096)
	go func() {
		defer from.Close()
		defer to.Close()
		for p := range parcels {
			time.Sleep(time.Until(p.due))
			if swallows.Load() {
				continue
			}
			if _, err := to.Write(p.data); err != nil {
				_ = from.Close()
			}
		}
	}()
	defer close(parcels)
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		parcels <- parcel{append([]byte(nil), buffer[:n]...), time.Now().Add(time.Duration(w.latency.Load()))}
	}
}
