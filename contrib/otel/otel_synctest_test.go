// SPDX-License-Identifier: Apache-2.0

package otel_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/contrib/otel"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/rwlock"
)

const orders = "signalbox.lock.class=orders,signalbox.lock.kind=reentrant"

// Waits and holds are counted with their outcomes, and the gauges show what is the case now.
func TestMetricsOfWaitsAndHolds(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		s, end := w.session(signalbox.WithObserver(w.observer()), signalbox.WithDefaults(signalbox.WithClass("orders")))
		defer end()
		mu := reentrant.New(s, "order/42")
		lease, err := mu.Lock(w.Context())
		require.NoError(w, err)
		waiting := make(chan signalbox.Lease)
		go func() {
			next, _ := mu.Lock(w.Context())
			waiting <- next
		}()
		synctest.Wait()
		_, err = mu.TryLock(w.Context())
		require.ErrorIs(w, err, signalbox.ErrHeld)
		require.Equal(w, map[string]int64{orders: 1}, w.points("signalbox.lock.held"))
		require.Equal(w, map[string]int64{orders: 1}, w.points("signalbox.lock.waiting"))
		time.Sleep(2 * time.Millisecond) // within a turn
		require.NoError(w, lease.Unlock())
		require.NoError(w, (<-waiting).Unlock())
		require.Equal(w, map[string]int64{orders: 0}, w.points("signalbox.lock.held"))
		require.Equal(w, map[string]int64{orders: 0}, w.points("signalbox.lock.waiting"))
		require.Equal(w, map[string]int64{
			orders + ",signalbox.lock.source=server,signalbox.outcome=acquired":  1,
			orders + ",signalbox.lock.source=process,signalbox.outcome=acquired": 1,
			orders + ",signalbox.outcome=held":                                   1,
		}, w.points("signalbox.lock.wait.duration"))
		require.Equal(w, map[string]int64{orders + ",signalbox.outcome=released": 2}, w.points("signalbox.lock.hold.duration"))
		holds := w.measured()["signalbox.lock.hold.duration"].Data.(metricdata.Histogram[float64]).DataPoints[0] //nolint:forcetypeassert // of a test
		require.InDelta(w, .002, holds.Sum, .001)
		require.InDelta(w, .001, holds.Bounds[0], 0)
		for name, m := range w.measured() {
			require.True(w, strings.HasPrefix(name, "signalbox."), name)
			require.NotEmpty(w, m.Description, name)
			require.NotEmpty(w, m.Unit, name)
		}
	})
}

// A loss, a force and renewals are measured. The two sides of a read-write lock have attributes of their own.
func TestMetricsOfLossesAndRenewals(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		s, end := w.session(signalbox.WithObserver(w.observer(otel.WithHoldBuckets(1, 100), otel.WithWaitBuckets(1))))
		defer end()
		mu := rwlock.New(s, "a")
		_, err := mu.RLock(w.Context())
		require.NoError(w, err)
		time.Sleep(time.Minute)
		require.NoError(w, mu.ForceUnlock(w.Context()))
		time.Sleep(time.Second)
		const reads = "signalbox.lock.kind=rwlock,signalbox.lock.mode=read"
		require.Equal(w, map[string]int64{reads: 0}, w.points("signalbox.lock.held"))
		require.Equal(w, map[string]int64{reads + ",signalbox.outcome=gone": 1}, w.points("signalbox.lock.hold.duration"))
		require.Equal(w, map[string]int64{"signalbox.lock.kind=rwlock,signalbox.lock.mode=write": 1}, w.points("signalbox.lock.forced"))
		require.Greater(w, w.points("signalbox.renewal.lag.ratio")["signalbox.outcome=renewed"], int64(4))
		require.Equal(w, w.points("signalbox.renewal.lag.ratio"), w.points("signalbox.renewal.lag"))
		holds := w.measured()["signalbox.lock.hold.duration"].Data.(metricdata.Histogram[float64]).DataPoints[0] //nolint:forcetypeassert // of a test
		require.Equal(w, []float64{1, 100}, holds.Bounds)
		require.Equal(w, []uint64{0, 1, 0}, holds.BucketCounts)
	})
}

// Spans are children of the caller's. The wait is linked to the hold before, in this process; a loss is an error.
func TestSpansOfWaitsAndHolds(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		s, end := w.session(signalbox.WithObserver(w.observer(otel.WithNames())))
		defer end()
		mu := reentrant.New(s, "order/42", signalbox.WithClass("orders"))
		ctx, caller := w.traces.Tracer("test").Start(w.Context(), "request")
		var done sync.WaitGroup
		for range 2 {
			done.Go(func() {
				lease, err := mu.Lock(ctx)
				if err == nil {
					time.Sleep(2 * time.Millisecond)
					err = lease.Unlock()
				}
				if err != nil {
					w.Error(err)
				}
			})
			synctest.Wait()
		}
		done.Wait()
		lost, err := mu.Lock(ctx)
		require.NoError(w, err)
		w.redis.Del("sb:{order/42}:lock")
		require.ErrorIs(w, mu.ForceUnlock(ctx), signalbox.ErrNotHeld)
		time.Sleep(2 * time.Second)
		require.ErrorIs(w, lost.Unlock(), signalbox.ErrLost)
		caller.End()
		synctest.Wait()
		waits, holds := named(w.spans.Ended(), "reentrant wait"), named(w.spans.Ended(), "reentrant hold")
		require.Len(w, waits, 3)
		require.Len(w, holds, 3)
		for i := range 3 {
			for _, span := range []sdktrace.ReadOnlySpan{waits[i], holds[i]} {
				require.Equal(w, caller.SpanContext().SpanID(), span.Parent().SpanID())
				require.Equal(w, "order/42", of(span, "signalbox.lock.name"))
				require.Equal(w, "orders", of(span, "signalbox.lock.class"))
			}
			require.Equal(w, waits[i].EndTime(), holds[i].StartTime())
		}
		require.Empty(w, waits[0].Links())
		require.Len(w, waits[1].Links(), 1)
		require.Equal(w, holds[0].SpanContext(), waits[1].Links()[0].SpanContext)
		require.Equal(w, "process", of(waits[1], "signalbox.lock.source"))
		require.Equal(w, "released", of(holds[0], "signalbox.outcome"))
		require.Equal(w, codes.Unset, holds[0].Status().Code)
		require.Equal(w, "gone", of(holds[2], "error.type"))
		require.Equal(w, codes.Error, holds[2].Status().Code)
	})
}

// The name of a lock is nowhere unless it is asked for.
func TestNamesAreNotShownUnlessAskedFor(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		s, end := w.session(signalbox.WithObserver(w.observer()))
		defer end()
		lease, err := reentrant.New(s, "secret").Lock(w.Context())
		require.NoError(w, err)
		_, err = reentrant.New(s, "secret").TryLock(w.Context())
		require.Error(w, err)
		require.NoError(w, lease.Unlock())
		require.Len(w, w.spans.Ended(), 3)
		for _, span := range w.spans.Ended() {
			require.Empty(w, of(span, "signalbox.lock.name"))
			require.NotContains(w, span.Status().Description, "secret")
		}
		for name := range w.measured() {
			for attributes := range w.points(name) {
				require.NotContains(w, attributes, "secret")
			}
		}
	})
}

// An observer that is merged with another one keeps metrics and spans, and so does the other.
func TestAMergedObserverKeepsMetricsAndSpans(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		released := 0
		own := signalbox.Observer{
			Acquired: func(context.Context, signalbox.Event) context.Context { return nil }, // keeps what is before it
			Released: func(context.Context, signalbox.Event) { released++ },
		}
		s, end := w.session(signalbox.WithObserver(signalbox.Observers(own, w.observer(), own)))
		defer end()
		lease, err := reentrant.New(s, "a").Lock(w.Context())
		require.NoError(w, err)
		require.NoError(w, lease.Unlock())
		require.Equal(w, 2, released)
		require.Len(w, w.spans.Ended(), 2)
		require.Len(w, w.points("signalbox.lock.hold.duration"), 1)
	})
}

// Without a provider there are no hooks.
func TestAnObserverOfNothingHasNoHooks(t *testing.T) {
	t.Parallel()
	o, err := otel.Observer(nil, nil, nil)
	require.NoError(t, err)
	require.Equal(t, signalbox.Observer{}, o)
}

// Metrics allocate nothing of their own: what the SDK allocates for a measurement without attributes is the same.
func TestMetricsAllocateNothing(t *testing.T) {
	bubble(t, func(w *world) {
		o, err := otel.Observer(w.meters, nil)
		require.NoError(w, err)
		e := signalbox.Event{Kind: "reentrant", Class: "orders", Source: "server"}
		ctx := context.Background()
		require.Zero(w, testing.AllocsPerRun(100, func() {
			o.Acquired(o.Waiting(ctx, e), e)
			o.Released(ctx, e)
		}))
	})
}

// named returns the spans of that name, as they started.
func named(spans []sdktrace.ReadOnlySpan, name string) (found []sdktrace.ReadOnlySpan) {
	for _, span := range spans {
		if span.Name() == name {
			found = append(found, span)
		}
	}
	return found
}

// of returns an attribute of a span.
func of(span sdktrace.ReadOnlySpan, key attribute.Key) string {
	for _, a := range span.Attributes() {
		if a.Key == key {
			return a.Value.AsString()
		}
	}
	return ""
}
