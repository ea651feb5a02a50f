// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/redis/rueidis"
	"go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/signalbox-go/signalbox"
	sbotel "github.com/signalbox-go/signalbox/contrib/otel"
	"github.com/signalbox-go/signalbox/reentrant"
)

const (
	// workers is how many goroutines ship orders, and orders how many orders there are.
	workers, orders = 8, 4
	// patience is how long a worker waits for an order that another one ships.
	patience = 200 * time.Millisecond
)

// service is one process, with what measures it.
type service struct {
	client  rueidis.Client
	session *signalbox.Session
	meters  *metric.MeterProvider
	handler http.Handler // serves /metrics
	working sync.WaitGroup
}

// newService connects to a server, and measures the locks of its session.
func newService(o rueidis.ClientOption) (*service, error) {
	registry := client.NewRegistry()
	exporter, err := prometheus.New(prometheus.WithRegisterer(registry))
	if err != nil {
		return nil, fmt.Errorf("make the exporter: %w", err)
	}
	meters := metric.NewMeterProvider(metric.WithReader(exporter))
	observer, err := sbotel.Observer(meters, nil)
	if err != nil {
		return nil, fmt.Errorf("make the observer: %w", err)
	}
	signalbox.Tune(&o)
	c, err := rueidis.NewClient(o)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	return &service{
		client: c, meters: meters, handler: mux,
		session: signalbox.NewSession(c, signalbox.WithPrefix("observed:"), signalbox.WithObserver(observer)),
	}, nil
}

// start starts the workers, which end with ctx.
func (s *service) start(ctx context.Context) {
	for range workers {
		s.working.Go(func() {
			for ctx.Err() == nil {
				_ = s.ship(ctx, rand.N(orders), patience) // what went wrong is in the metrics, which is what this shows
			}
		})
	}
}

// ship ships an order that no other worker is shipping, in any process. It waits for that for so long at most.
func (s *service) ship(ctx context.Context, order int, most time.Duration) error {
	wait, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	// The class is a label of the metrics. The names of locks are not: there are too many.
	lock := reentrant.New(s.session, fmt.Sprint("order/", order), signalbox.WithClass("orders"))
	lease, err := lock.Lock(wait)
	if err != nil {
		return err
	}
	work, done := context.WithTimeout(lease.Bind(ctx), rand.N(100*time.Millisecond))
	<-work.Done() // the work
	done()
	return lease.Unlock()
}

// close ends the session, once the workers are done.
func (s *service) close() {
	s.working.Wait()
	err := s.session.Close(context.Background())
	s.client.Close()
	if err = errors.Join(err, s.meters.Shutdown(context.Background())); err != nil {
		fmt.Println("observed:", err)
	}
}
