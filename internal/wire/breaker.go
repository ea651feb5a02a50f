// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/signalbox-go/signalbox/internal/clock"
)

// breaker limits the calls to a server that refuses connections: no server listens, too many clients, wrong
// password. For a while after such a try all calls get the error of that try.
type breaker struct {
	open atomic.Bool // reports that mu.failures is not 0, without the lock

	mu struct {
		sync.Mutex
		failures int
		retryAt  time.Duration // the monotonic time of the next allowed try
		err      error         // the error of the last failed try
	}
}

// allow returns nil if the caller may try, or the error of the last try.
func (b *breaker) allow() error {
	if !b.open.Load() {
		return nil
	}
	now := clock.Mono()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.failures == 0 || now >= b.mu.retryAt {
		return nil
	}
	return b.mu.err
}

// record records the result of a call. Calls that share one try to connect fail at the same time, and
// count once.
func (b *breaker) record(err error) {
	if err == nil && !b.open.Load() {
		return
	}
	refused := isConnectRefusal(err)
	if !refused && !b.open.Load() {
		return
	}
	now := clock.Mono()
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case !refused && err != nil && !IsReplyError(err):
		return // says nothing about connections
	case !refused:
		b.mu.failures, b.mu.err = 0, nil
	case b.mu.failures == 0 || now >= b.mu.retryAt:
		pause := min(firstPause<<min(b.mu.failures, 10), longestPause)
		b.mu.retryAt = now + pause/2 + rand.N(pause/2)
		b.mu.failures++
		b.mu.err = err
	}
	b.open.Store(b.mu.failures > 0)
}

// isConnectRefusal reports whether err says that there is no connection to be had.
func isConnectRefusal(err error) bool {
	return isConnectError(err) || begins(wordsOf(err), connectRefusals)
}

// connectRefusals lists the beginnings of the refusals that a new connection gets.
//
//nolint:gochecknoglobals // a constant table
var connectRefusals = []string{"max number of clients", "NOAUTH", "WRONGPASS", "DENIED"}
