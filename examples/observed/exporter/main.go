// SPDX-License-Identifier: Apache-2.0

// Command exporter is the least program that exports the metrics of its locks. SIGNALBOX_REDIS=redis://host:6379 names the
// server; the metrics are at http://localhost:9464/metrics.
package main

import (
	"context"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/signalbox-go/signalbox"
	sbotel "github.com/signalbox-go/signalbox/contrib/otel"
	"github.com/signalbox-go/signalbox/reentrant"
)

func main() {
	ctx := context.Background()
	session, metrics, err := connect(ctx, os.Getenv("SIGNALBOX_REDIS"))
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(context.Background())
	lock := reentrant.New(session, "report", signalbox.WithClass("reports"))
	if err := lock.Do(ctx, write); err != nil {
		log.Print(err)
	}
	http.Handle("/metrics", metrics)
	server := &http.Server{Addr: "localhost:9464", ReadHeaderTimeout: time.Second}
	log.Print(server.ListenAndServe())
}

// write is the work.
func write(context.Context, signalbox.Lease) error { return nil }

// connect returns a session and the handler with the metrics of its locks.
func connect(ctx context.Context, url string) (*signalbox.Session, http.Handler, error) {
	registry := prometheus.NewRegistry()
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(registry))
	if err != nil {
		return nil, nil, err
	}
	meters := metric.NewMeterProvider(metric.WithReader(exporter))
	observer, err := sbotel.Observer(meters, nil) //nolint:contextcheck // it outlives ctx
	if err != nil {
		return nil, nil, err
	}
	session, err := signalbox.Dial(ctx, url, signalbox.WithObserver(observer))
	return session, promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), err
}
