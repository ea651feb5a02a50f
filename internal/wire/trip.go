// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox/internal/clock"
)

// trip estimates the round trip to the server. The estimate falls at once and rises slowly: a call
// may take longer because this process or the server was busy, but never less than one round trip.
// If two calls end together, one of them may not be counted.
type trip struct{ estimate atomic.Int64 }

// took records how long a call with a reply took.
func (t *trip) took(d time.Duration) {
	now, last := int64(max(d, 1)), t.estimate.Load()
	if last != 0 && now > last {
		now = last + (now-last)/8
	}
	if now != last {
		t.estimate.Store(now)
	}
}

// known returns the estimate, 0 before the first reply.
func (t *trip) known() time.Duration { return time.Duration(t.estimate.Load()) }

// do sends one command and measures how long its reply takes.
func (r *Runner) do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	sent := clock.Now().Mono()
	result := r.client.Do(ctx, command)
	if result.NonRedisError() == nil {
		r.trip.took(clock.Now().Mono() - sent)
	}
	return result
}
