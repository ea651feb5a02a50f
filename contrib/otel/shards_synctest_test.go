// SPDX-License-Identifier: Apache-2.0

package otel_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/shards"
)

// The shards of a member are counted while it owns them, and how long work needs to stop is measured.
func TestMetricsOfShards(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		s, end := w.session(signalbox.WithObserver(w.observer()))
		defer end()
		ctx, cancel := context.WithCancel(w.Context())
		defer cancel()
		returned := make(chan error, 1)
		go func() {
			returned <- shards.New(s, "a", shards.Count(4), signalbox.WithClass("orders")).Run(ctx, func(ctx context.Context, _ shards.Shard) error {
				<-ctx.Done()
				time.Sleep(2 * time.Minute)
				return nil
			})
		}()
		time.Sleep(5 * time.Second)
		const own = "signalbox.lock.class=orders,signalbox.lock.kind=shards"
		require.Equal(w, map[string]int64{own: 1}, w.points("signalbox.shards.members"))
		require.Equal(w, map[string]int64{own: 4}, w.points("signalbox.shards.owned"))
		cancel()
		time.Sleep(90 * time.Second)
		require.Equal(w, map[string]int64{own: 4}, w.points("signalbox.shards.draining"))
		require.Equal(w, map[string]int64{own + ",signalbox.outcome=left": 4}, w.points("signalbox.shards.drains.slow"))
		require.ErrorIs(w, <-returned, context.Canceled)
		for _, gauge := range []string{"signalbox.shards.members", "signalbox.shards.owned", "signalbox.shards.draining"} {
			require.Equal(w, map[string]int64{own: 0}, w.points(gauge), gauge)
		}
		for _, counted := range []string{"signalbox.shards.hold.duration", "signalbox.shards.drain.duration"} {
			require.Equal(w, map[string]int64{own + ",signalbox.outcome=left": 4}, w.points(counted), counted)
		}
		require.Equal(w, map[string]int64{own + ",signalbox.outcome=left": 1}, w.points("signalbox.shards.member.ends"))
	})
}
