// SPDX-License-Identifier: Apache-2.0

package otel_test

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/contrib/otel"
)

// world is an embedded server in a bubble of virtual time, and what was measured.
type world struct {
	*testing.T

	redis  *miniredis.Miniredis
	reader *sdkmetric.ManualReader
	meters *sdkmetric.MeterProvider
	spans  *tracetest.SpanRecorder
	traces *sdktrace.TracerProvider
}

func bubble(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, time.March, 1, 0, 0, 0, 0, time.UTC)))
		w := &world{T: t, redis: miniredis.NewMiniRedis(), reader: sdkmetric.NewManualReader(), spans: tracetest.NewSpanRecorder()}
		w.meters = sdkmetric.NewMeterProvider(sdkmetric.WithReader(w.reader))
		w.traces = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(w.spans))
		w.redis.ClockTTL(true)
		first, err := w.redis.Dial() // which makes the server
		require.NoError(t, err)
		require.NoError(t, first.Close())
		defer w.redis.Close()
		test(w)
	})
}

// observer returns an observer of metrics and spans.
func (w *world) observer(options ...otel.Option) signalbox.Observer {
	w.Helper()
	o, err := otel.Observer(w.meters, w.traces, options...)
	require.NoError(w, err)
	return o
}

// session returns a session, as another process would have it, and what ends it.
func (w *world) session(options ...signalbox.SessionOption) (*signalbox.Session, func()) {
	w.Helper()
	o := rueidis.ClientOption{
		InitAddress: []string{"embedded"}, ForceSingleClient: true, AlwaysRESP2: true,
		DialCtxFn: func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) { return w.redis.Dial() },
	}
	signalbox.Tune(&o)
	client, err := rueidis.NewClient(o)
	require.NoError(w, err)
	s := signalbox.NewSession(client, append(options, signalbox.WithLogger(slog.New(slog.DiscardHandler)))...)
	return s, func() {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		_ = s.Close(ended) // leases may be left
		client.Close()
	}
}

// measured returns the metrics by their names.
func (w *world) measured() map[string]metricdata.Metrics {
	w.Helper()
	synctest.Wait()
	var data metricdata.ResourceMetrics
	require.NoError(w, w.reader.Collect(w.Context(), &data))
	all := make(map[string]metricdata.Metrics)
	for _, scope := range data.ScopeMetrics {
		for _, m := range scope.Metrics {
			all[m.Name] = m
		}
	}
	return all
}

// points returns a metric's values by their attributes: sums, or the counts of histograms.
func (w *world) points(name string) map[string]int64 {
	w.Helper()
	found := make(map[string]int64)
	encoder := attribute.DefaultEncoder()
	switch data := w.measured()[name].Data.(type) {
	case metricdata.Sum[int64]:
		for _, p := range data.DataPoints {
			found[p.Attributes.Encoded(encoder)] = p.Value
		}
	case metricdata.Histogram[float64]:
		for _, p := range data.DataPoints {
			found[p.Attributes.Encoded(encoder)] = int64(p.Count)
		}
	}
	return found
}
