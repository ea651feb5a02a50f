// SPDX-License-Identifier: Apache-2.0

// Command observed is a service whose locks can be seen: its metrics are at /metrics for Prometheus, with a dashboard
// for Grafana (dashboard.json) and alert rules (alerts.yaml) beside this file. Workers ship orders, one worker at a time
// for each order, so that some wait and now and then one gives up.
//
// It brings a small server of its own, in memory. SIGNALBOX_REDIS=redis://host:6379 names a real one.
//
//	go run . -addr localhost:9464
//	curl localhost:9464/metrics
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"time"
)

func main() {
	addr := flag.String("addr", "localhost:9464", "where /metrics is served")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *addr); err != nil {
		fmt.Fprintln(os.Stderr, "observed:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, addr string) error {
	here, err := openLockServer()
	if err != nil {
		return err
	}
	defer here.close()
	s, err := newService(here.option) //nolint:contextcheck // what it makes outlives the context
	if err != nil {
		return err
	}
	defer s.close() //nolint:contextcheck // it ends after the context
	fmt.Println(here.greeting)
	fmt.Printf("Metrics are at http://%s/metrics; interrupt to stop.\n", addr)

	server := &http.Server{Addr: addr, Handler: s.handler, ReadHeaderTimeout: time.Second}
	stopped := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stopped()
	s.start(ctx)
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
