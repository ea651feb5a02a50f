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

// breaker limits the calls to a server that refuses connections: no server listens, too many clients, wrong
// password. For a while after such a try all calls get the error of that try.
type breaker struct {
	open atomic.Bool // mu.fails is not 0, to be read without the lock

	mu struct {
		sync.Mutex
		failures int
		retryAt  time.Duration // monotonic: when the next try is allowed
		err      error         // the error of the last try
	}
}

// allow returns nil if the caller may try, or the error of the last try.
func (d *breaker) allow() error {
	if !d.open.Load() {
		return nil
	}
	now := clock.Now().Mono()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.failures == 0 || now >= d.mu.retryAt {
		return nil
	}
	return d.mu.err
}

// record records the result of a call. Calls that share one try to connect fail at the same time, and
// count once.
func (d *breaker) record(err error) {
	if err == nil && !d.open.Load() {
		return
	}
	refused := isConnectRefusal(err)
	if !refused && !d.open.Load() {
		return
	}
	now := clock.Now().Mono()
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case !refused && err != nil && !IsReplyError(err):
		return // says nothing about connections
	case !refused:
		d.mu.failures, d.mu.err = 0, nil
	case d.mu.failures == 0 || now >= d.mu.retryAt:
		pause := min(firstPause<<min(d.mu.failures, 10), longestPause)
		d.mu.retryAt = now + pause/2 + rand.N(pause/2)
		d.mu.failures++
		d.mu.err = err
	}
	d.open.Store(d.mu.failures > 0)
}

// isConnectRefusal reports whether err says that there is no connection to be had.
func isConnectRefusal(err error) bool {
	if isConnectError(err) {
		return true
	}
	var refusal *rueidis.RedisError
	return errors.As(err, &refusal) && begins(refusal.Error(), connectRefusals)
}

// connectRefusals lists how the refusals begin that meet a new connection.
//
//nolint:gochecknoglobals // a constant table
var connectRefusals = []string{"max number of clients", "NOAUTH", "WRONGPASS", "DENIED"}
