// SPDX-License-Identifier: Apache-2.0

package otel_test

import (
	"context"
	"fmt"
	"log"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/signalbox-go/signalbox"
	sbotel "github.com/signalbox-go/signalbox/contrib/otel"
	"github.com/signalbox-go/signalbox/reentrant"
)

// The metrics of a session, without spans. A service has a reader that exports in place of this one.
func ExampleObserver() {
	ctx := context.Background()
	reader := metric.NewManualReader()
	observer, err := sbotel.Observer(metric.NewMeterProvider(metric.WithReader(reader)), nil, sbotel.WithWaitBuckets(0.001, 0.01, 0.1, 1, 10))
	if err != nil {
		log.Fatal(err)
	}
	session, err := signalbox.Dial(ctx, serverURL, signalbox.WithObserver(observer)) // "redis://localhost:6379"
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(context.Background())
	lease, err := reentrant.New(session, "order/42").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if err := lease.Unlock(); err != nil {
		log.Fatal(err)
	}

	var metrics metricdata.ResourceMetrics
	if err := reader.Collect(ctx, &metrics); err != nil {
		log.Fatal(err)
	}
	for _, m := range metrics.ScopeMetrics[0].Metrics {
		if m.Name == "signalbox.lock.hold.duration" {
			fmt.Println(m.Name, "in", m.Unit)
		}
	}
	// Output: signalbox.lock.hold.duration in s
}
