// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox/internal/timers"
)

// breaker limits the calls to a server that refuses connections: no server listens, too many clients, wrong
// password. For a while after such a try all calls get the error of that try, unless the server has accepted a connection
// since the try began: then it is over, and the call may be one that a message on that connection asks for.
type breaker struct {
	client rueidis.Client
	open   atomic.Bool // reports that mu.failures is not 0, without the lock

	mu struct {
		sync.Mutex
		failures int
		began    time.Duration // when the last failed try began, on the monotonic clock
		retryAt  time.Duration // the monotonic time of the next allowed try
		err      error         // the error of the last failed try
	}
}

// allow returns nil if the caller may try, or the error of the last try.
func (b *breaker) allow() error {
	if !b.open.Load() {
		return nil
	}
	now := timers.Mono()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.allowsLocked(now) {
		return nil
	}
	return b.mu.err
}

func (b *breaker) allowsLocked(now time.Duration) bool {
	return b.mu.failures == 0 || now >= b.mu.retryAt || acceptedSince(b.client, b.mu.began)
}

// record records the result of a call that began at began. Calls that share one try to connect fail at the same time, and
// count once.
func (b *breaker) record(began time.Duration, err error) {
	if err == nil && !b.open.Load() {
		return
	}
	refused := isConnectRefusal(err)
	if !refused && !b.open.Load() {
		return
	}
	now := timers.Mono()
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case !refused && err != nil && !IsReplyError(err):
		return // says nothing about connections
	case !refused:
		b.mu.failures, b.mu.err = 0, nil
	case b.allowsLocked(now):
		pause := min(firstPause<<min(b.mu.failures, 10), longestPause)
		b.mu.retryAt = now + pause/2 + rand.N(pause/2)
		b.mu.failures++
		b.mu.began, b.mu.err = began, err
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
var connectRefusals = append([]string{"max number of clients", "NOAUTH", "WRONGPASS", "DENIED"}, wrongPassword...)
