// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox/internal/clock"
)

// door limits the calls to a server that refuses connections: no server listens, too many clients, wrong
// password. For a while after such a try all calls get the error of that try.
type door struct {
	shut atomic.Bool // mu.fails is not 0, to be read without the lock

	mu struct {
		sync.Mutex
		fails int
		until time.Duration // monotonic: when the next try is allowed
		err   error         // the error of the last try
	}
}

// knock returns nil if the caller may try, or the error of the last try.
func (d *door) knock() error {
	if !d.shut.Load() {
		return nil
	}
	now := clock.Now().Mono()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.fails == 0 || now >= d.mu.until {
		return nil
	}
	return d.mu.err
}

// returned records the result of a call. Calls that share one try to connect fail at the same time, and
// count once.
func (d *door) returned(err error) {
	if err == nil && !d.shut.Load() {
		return
	}
	refused := isOutside(err)
	if !refused && !d.shut.Load() {
		return
	}
	now := clock.Now().Mono()
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case !refused && err != nil && !IsReplyError(err):
		return // says nothing about connections
	case !refused:
		d.mu.fails, d.mu.err = 0, nil
	case d.mu.fails == 0 || now >= d.mu.until:
		pause := min(firstKnock<<min(d.mu.fails, 10), lastKnock)
		d.mu.until = now + pause/2 + rand.N(pause/2)
		d.mu.fails++
		d.mu.err = err
	}
	d.shut.Store(d.mu.fails > 0)
}

// isOutside reports whether err says that there is no connection to be had.
func isOutside(err error) bool {
	if isConnectError(err) {
		return true
	}
	var refusal *rueidis.RedisError
	return errors.As(err, &refusal) && begins(refusal.Error(), outside)
}

// outside lists how the refusals begin that meet a new connection.
//
//nolint:gochecknoglobals // a constant table
var outside = []string{"max number of clients", "NOAUTH", "WRONGPASS", "DENIED"}
