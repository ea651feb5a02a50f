// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox/internal/clock"
)

// trip estimates the round trip to the server. It falls at once and rises slowly: a call may take longer because this
// process or the server was busy, and none takes less than the way there and back. Of two calls that end together one may
// be forgotten.
type trip struct{ estimate atomic.Int64 }

// took takes the time of a call that the server has replied to.
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
